"""Validates the arguments of a call and makes keyword arguments for the tool's function from them.

1. Validation is as strict as JSON Schema: "5" is not a number, and 5.0 is the integer 5.
2. If it fails, JSON text in the arguments is parsed (`json_text`) and validated once more, unless
   the tool or the site has turned that off.
3. Tools with a signature are validated by their pydantic model, tools with an `input_schema` of
   their own by a `jsonschema` validator.
4. A model records every mismatch, while the validator stops after a few. So the validator checks
   large arguments first, and it reports the problems if the model finds too many. This bounds the
   work for any arguments.

Error messages are for models: they contain the place and the problem, but no internal names or
types. Source: 2026-07-28 server/tools "Error Handling".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from mcp_app.catalogue.errors import InvalidArguments, Problem
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.catalogue.schema import dialects
from mcp_app.catalogue.schema.violations import sentence
from mcp_app.conf import settings
from mcp_app.protocol.jsonrpc import MAX_VALUES, holds_more_than

MAX_PROBLEMS: Final = 10
MAX_LINE_CHARS: Final = 300
MAX_VALUE_CHARS: Final = 40
MAX_EVALUATIONS: Final = 200_000
"""Schema keywords evaluated for one call: about a second. Legitimate calls stay far below that."""


MANY_VALUES: Final = 10_000
"""Arguments with more values than this are checked by the schema's validator before the model."""
MAX_MISFITS: Final = 1_000
"""If the model finds more mismatches, the schema's validator reports the first of them instead."""

_NO_JSON: Final = "they contain text that is not valid Unicode, a number out of range, or too many nested levels"
_TOO_LARGE: Final = "they are too large or too deep to be checked; send less"
_TOO_WRONG: Final = "nearly all of them are wrong; read the tool's schema again"


@dataclass(frozen=True, slots=True)
class Accepted:
    """Arguments that fit the schema of their tool."""

    arguments: dict[str, Any]
    """As JSON: as they were sent, or with JSON text parsed if they fit only then."""
    keywords: dict[str, Any]
    """The keyword arguments for the tool's function, without its context."""


def accept(tool: RegisteredTool, arguments: Mapping[str, Any]) -> Accepted:
    """Validate the `arguments` of a call, a JSON object.

    Raises `InvalidArguments`, with one line for each problem.
    """
    sent = dict(arguments)
    try:
        return Accepted(sent, _keywords(tool, sent))
    except InvalidArguments:
        if not (settings.JSON_TEXT_ARGUMENTS if tool.json_text is None else tool.json_text):
            raise
        read = tool.signature.text_reader.read(sent)
        if read == sent:
            raise
    return Accepted(read, _keywords(tool, read))


def bind(tool: RegisteredTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the arguments, as `accept` does, and return only the keyword arguments."""
    return accept(tool, arguments).keywords


def _keywords(tool: RegisteredTool, arguments: dict[str, Any]) -> dict[str, Any]:
    text = _encode(arguments)
    if (model := tool.signature.model) is None:
        _check(tool, arguments)
        return {str(tool.signature.mapping_parameter): dict(arguments)}
    if holds_more_than(arguments, MANY_VALUES):
        # The model records each mismatch in about 450 bytes; the validator stops after a few.
        if holds_more_than(arguments, MAX_VALUES):
            raise _refused(_TOO_LARGE)
        _check(tool, arguments)
    parsed = _parse(tool, model, arguments, text)
    parameters = tool.signature.parameters
    return {parameters[field]: value for field, value in parsed.__dict__.items()}


def _parse(tool: RegisteredTool, model: type[BaseModel], arguments: Mapping[str, Any], text: bytes) -> BaseModel:
    # Pydantic accepts JSON forms (an array for a tuple, text for a date) in strict mode only if it
    # parses the JSON itself.
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        problems = error
    are_many = problems.error_count() > MAX_MISFITS
    if are_many:
        _check(tool, arguments)
    if are_many or _wants_integer(problems):
        try:
            return model.model_validate_json(_encode(_whole_numbers(arguments)), strict=True)
        except ValidationError as error:
            problems = error
    if problems.error_count() > MAX_MISFITS:
        raise _refused(_TOO_WRONG) from None
    found = (_pydantic_problem(each, arguments) for each in problems.errors(include_url=False, include_context=False))
    raise _invalid(found, problems.error_count()) from None


def _encode(arguments: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise _refused(_NO_JSON) from None


def _wants_integer(error: ValidationError) -> bool:
    problems = error.errors(include_url=False, include_context=False)
    return any(each["type"] == "int_type" and isinstance(each["input"], float) for each in problems)


def _whole_numbers(value: Any) -> Any:
    """Return `value` with 5.0 as 5: to JSON Schema they are the same integer."""
    if isinstance(value, dict):
        return {key: _whole_numbers(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check(tool: RegisteredTool, arguments: Mapping[str, Any]) -> None:
    """Check the arguments with the schema's validator, at a bounded cost.

    Raises `InvalidArguments`.
    """
    try:
        with dialects.bounded(MAX_EVALUATIONS):
            found = list(islice(tool.signature.input_validator.iter_errors(arguments), MAX_PROBLEMS + 1))
    except (dialects.TooCostlyError, RecursionError):
        raise _refused(_TOO_LARGE) from None
    if found:
        raise _invalid((Problem(tuple(each.absolute_path), sentence(each)) for each in found), len(found))


def _refused(words: str) -> InvalidArguments:
    return InvalidArguments(_list([words]), [Problem((), words)])


def _pydantic_problem(error: Mapping[str, Any], arguments: Mapping[str, Any]) -> Problem:
    path, known = _path(error["loc"], arguments, missing=error["type"] == "missing")
    if error["type"] == "missing":
        return Problem(path, "this argument is required")
    if error["type"] == "extra_forbidden":
        return Problem(path, "there is no such argument")
    got = f", not {_shown(error['input'])}" if known else ""
    return Problem(path, f"{error['msg']}{got}")


def _path(location: Sequence[str | int], arguments: Any, *, missing: bool) -> tuple[tuple[str | int, ...], bool]:
    """Return the path of a problem, and whether the value at that path is among the arguments.

    Pydantic adds names of its own to the path (the branch of a union, a validator). Only steps that
    exist in the arguments are kept. If an argument is missing, its name is added.
    """
    steps: list[str | int] = []
    for step in location:
        if _leads_on(arguments, step):
            arguments = arguments[step]
            steps.append(step)
    if missing:
        steps.append(location[-1])
    return tuple(steps), not missing


def _leads_on(value: Any, step: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value


def dotted(steps: Iterable[str | int]) -> str:
    """Write a path for people, such as `address.lines[1]`."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return path.removeprefix(".") or "arguments"


def _shown(value: Any) -> str:
    """Return a scalar as shortened JSON, and the JSON type of an array or object."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def _invalid(problems: Iterable[Problem], count: int) -> InvalidArguments:
    first = list(islice(problems, MAX_PROBLEMS))
    unique = list(dict.fromkeys(_line(f"{dotted(path)}: {words}") for path, words in first))
    if count > MAX_PROBLEMS:
        unique.append("and further problems")
    told = dict.fromkeys(Problem(path, _line(words)) for path, words in first)
    return InvalidArguments(_list(unique), list(told))


def _line(text: str) -> str:
    return text.replace("\n", " ")[:MAX_LINE_CHARS]


def _list(lines: Iterable[str]) -> str:
    return "\n".join(["The arguments do not fit this tool:", *(f"- {line}" for line in lines)])
