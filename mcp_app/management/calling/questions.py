"""Asks a tool's questions at the terminal: a form field by field, a page by its address.

Without a terminal, questions are declined. An answer that does not fit the form is asked for again at once.
Source: 2026-07-28 client/elicitation.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mcp_app.catalogue.errors import MalformedAnswer, UnfitAnswer
from mcp_app.catalogue.input import questions as asking
from mcp_app.management.terminal import one_line
from mcp_app.safe_text import safe_text

LINE_BYTES: Final = 4096
"""The longest line that a terminal returns."""
HELP: Final = (
    "Enter accepts the value in brackets; /decline declines; /cancel dismisses the question; Ctrl-C cancels the call."
)
_WORDS: Final = {"/decline": "decline", "/cancel": "cancel", "": "cancel"}
_YES_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


class _LeftError(Exception):
    """The user declines or cancels. The text is the action."""


def is_anybody_there() -> bool:
    """Whether there is a terminal for questions and answers."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def refusals(asked: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Return a sentence for each question that cannot be asked without a terminal."""
    for request in asked.values():
        message = one_line((request.get("params") or {}).get("message", ""), 200)
        yield f"The tool asks “{message}”: declined, because there is no terminal to ask at."


def declined(asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return an InputResponses object that declines all questions."""
    return {key: {"action": "decline"} for key in asked}


async def answers(asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return an InputResponses object for an InputRequests object. If cancelled, leave nothing behind."""
    return {key: await _answer(request) for key, request in asked.items()}


async def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    params = request["params"]
    _say(f"\n{safe_text(params['message'])}")
    try:
        if params.get("mode") == "url":
            _say(f"  {one_line(params['url'])}")
            await _ask("Open it, and press Enter here when you are done (/decline, /cancel): ")
            return {"action": "accept"}
        return {"action": "accept", "content": await _form(request)}
    except _LeftError as left:
        return {"action": str(left)}


async def _form(request: Mapping[str, Any]) -> dict[str, Any]:
    schema = request["params"]["requestedSchema"]
    _say(HELP)
    if not schema["properties"]:
        await _ask("Press Enter to agree: ")
    content = {}
    for name, field in schema["properties"].items():
        value = await _field(request, name, field, required=name in schema.get("required", ()))
        if value is not None:
            content[name] = value
    return content


async def _field(request: Mapping[str, Any], name: str, field: Mapping[str, Any], *, required: bool) -> Any:
    """Return the entered value, or `None` for an optional field without one."""
    for line in _described(name, field):
        _say(line)
    while True:
        text = await _ask(_prompt(name, field, required=required))
        if not text:
            if "default" in field:
                return field["default"]
            if not required:
                return None
            _say("  An answer is needed.")
            continue
        value = _read(text, field)
        if (problem := _misfit(request, name, field, value)) is None:
            return value
        _say(f"  {one_line(problem)}")


def _described(name: str, field: Mapping[str, Any]) -> Iterator[str]:
    texts = [one_line(field[each]) for each in ("title", "description") if field.get(each)]
    if texts and texts[0].lower() == name.lower():  # pydantic's title for the name
        texts = texts[1:]
    if texts:
        yield f"  {': '.join(texts)}"
    for value, title in _choices(field).items():
        yield f"    {one_line(value)}" + (f"  {one_line(title)}" if title != value else "")


def _prompt(name: str, field: Mapping[str, Any], *, required: bool) -> str:
    kind = str(field.get("type", ""))
    hint = {"boolean": "y/n", "array": "several, with commas between", "string": ""}.get(kind, kind)
    hint = ", ".join(part for part in (field.get("format", ""), hint, "" if required else "optional") if part)
    label = f"{one_line(name)} ({one_line(hint)})" if hint else one_line(name)
    return f"{label} [{_shown(field['default'])}]: " if "default" in field else f"{label}: "


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "y" if default else "n"
    return one_line(",".join(map(str, default)) if isinstance(default, list) else default)


def _choices(field: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a field with choices and their titles, or an empty list."""
    among = field.get("items", field)
    if "enum" in among:
        return dict(zip(among["enum"], among.get("enumNames", among["enum"]), strict=True))
    return {each["const"]: each["title"] for each in among.get("oneOf", among.get("anyOf", ()))}


def _read(text: str, field: Mapping[str, Any]) -> Any:
    """Return the entered text as a value. Text that is no value is returned as it is, and fails the check."""
    readers: Mapping[str, Callable[[str], Any]] = {
        "integer": int,
        "number": float,
        "boolean": lambda text: _YES_NO.get(text.lower(), text),
        "array": lambda text: [part.strip() for part in text.split(",") if part.strip()],
    }
    try:
        return readers.get(str(field.get("type")), str)(text)
    except ValueError:
        return text


def _misfit(request: Mapping[str, Any], name: str, field: Mapping[str, Any], value: Any) -> str | None:
    """Return the problem of a field, according to the check of the whole form."""
    alone = {"type": "object", "properties": {name: field}}
    params = {**request["params"], "requestedSchema": alone}
    try:
        asking.check({**request, "params": params}, {"action": "accept", "content": {name: value}})
    except (UnfitAnswer, MalformedAnswer) as error:
        return str(error)
    return None


async def _ask(prompt: str) -> str:
    """Return an entered line without surrounding space. Raises `_LeftError`."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = await _line()
    if not line:
        _say("")
        raise _LeftError(_WORDS[""])
    text = line.decode(errors="replace").strip()
    if text.lower() in _WORDS and text:
        raise _LeftError(_WORDS[text.lower()])
    return text


async def _line() -> bytes:
    """Read a line from the terminal; an empty string at the end of input. If cancelled, no thread is left reading."""
    loop = asyncio.get_running_loop()
    entered: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()

    def read() -> None:
        loop.remove_reader(descriptor)
        if not entered.done():
            try:
                entered.set_result(os.read(descriptor, LINE_BYTES))
            except OSError:  # the terminal is gone
                entered.set_result(b"")

    loop.add_reader(descriptor, read)
    try:
        return await entered
    finally:
        loop.remove_reader(descriptor)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
