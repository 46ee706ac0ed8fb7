"""A tool's schema at work: JSON arguments are held against it and turned into the function's keyword arguments.

Strict as JSON Schema is ("5" is no number, 5.0 is the integer 5), with messages that a model can act on: where, and
what is wrong; never our own names or types. The work is bounded whatever the arguments are.
Source: 2026-07-28 server/tools "Error Handling".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from mcp_app.catalogue import dialects
from mcp_app.catalogue.errors import InvalidArguments, Problem
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.catalogue.violations import sentence
from mcp_app.protocol.bounded import holds_more_than

MAX_PROBLEMS: Final = 10
MAX_LINE_CHARS: Final = 300
MAX_VALUE_CHARS: Final = 40
MAX_EVALUATIONS: Final = 200_000
"""Schema keywords evaluated for one call: about a second, on the way to which no honest call comes."""


MANY_VALUES: Final = 10_000
"""In the arguments of one call: those that have more are held against the schema first."""
MAX_VALUES: Final = 300_000
MAX_MISFITS: Final = 1_000
"""More than that are not looked at one by one, but the first by the schema."""

_NO_JSON: Final = "they hold text that is not valid Unicode, or a number or depth out of range"
_TOO_LARGE: Final = "they are too large or too deep to be checked; send less"
_TOO_WRONG: Final = "hardly any of them fits; read the tool's schema again"


def bind(tool: RegisteredTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for `tool.function`, its context left out, from the `arguments` of a call.

    Raises `InvalidArguments`, one line for a problem.
    """
    text = _encode(arguments)
    if (model := tool.signature.model) is None:
        _check(tool, arguments)
        return {str(tool.signature.mapping_parameter): dict(arguments)}
    if holds_more_than(arguments, MANY_VALUES):
        # A model notes each misfit, at 450 bytes; the schema's validator none beyond the first few.
        if holds_more_than(arguments, MAX_VALUES):
            raise _refused(_TOO_LARGE)
        _check(tool, arguments)
    parsed = _parse(tool, model, arguments, text)
    parameters = tool.signature.parameters
    return {parameters[field]: value for field, value in parsed.__dict__.items()}


def _parse(tool: RegisteredTool, model: type[BaseModel], arguments: Mapping[str, Any], text: bytes) -> BaseModel:
    # Pydantic is strict in the way of JSON (an array for a tuple, text for a date) only where it parses JSON itself.
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
    """`value` with 5.0 as 5: to JSON Schema they are the same integer."""
    if isinstance(value, dict):
        return {key: _whole_numbers(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check(tool: RegisteredTool, arguments: Mapping[str, Any]) -> None:
    """Hold them against the schema, at a bounded cost. Raises InvalidArguments."""
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
    """The path of a problem in the arguments, and whether it is a value in them.

    Pydantic puts names of its own (the branch of a union, a validator) between ours: only steps that the arguments
    have are kept, and the last one where it is what is missing.
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
    """A path as it is told: `address.lines[1]`."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return path.removeprefix(".") or "arguments"


def _shown(value: Any) -> str:
    """A value as JSON where it is short, its JSON type where it is not."""
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
