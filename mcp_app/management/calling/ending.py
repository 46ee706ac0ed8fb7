"""What came of a call: its result on standard output, everything else in words on standard error, and an exit status.

Source of what is shown: 2026-07-28 server/tools "Tool Result".
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from mcp_app.lifecycle.inert import inert, inert_json
from mcp_app.management.cancel import describe_end
from mcp_app.management.cut_short import leave_unread
from mcp_app.models import Request
from mcp_app.states import Status
from mcp_app.telling.formatting import between

DONE: Final = 0
FAILED: Final = 1
INTERRUPTED: Final = 130
"""Of a call that was cancelled here: the usual one after Ctrl-C."""


def log_line(params: Mapping[str, Any]) -> str:
    """A `notifications/message` as a line."""
    data = params.get("data")
    text = data if isinstance(data, str) else inert_json(data)
    logger = f"{params['logger']}: " if params.get("logger") else ""
    return f"{params.get('level', '')}: {logger}{text}"


def summary(row: Request) -> str:
    """How a call ended and how long it took, and where to read more of it."""
    told = describe_end(row) if row.cancel_requested_at is not None else str(Status(row.status).label)
    return f"{told}, {between(row.submitted_at, row.finished_at)} in all: request {row.pk}"


def status(message: Mapping[str, Any] | None, row: Request | None, *, stopped: bool) -> int:
    """The exit status. `message`: the response, if any came; `stopped`: whether it was to be cancelled from here."""
    if stopped and (row is None or row.status == Status.CANCELLED):
        return INTERRUPTED
    return DONE if message is not None and "result" in message and not message["result"].get("isError") else FAILED


def show(message: Mapping[str, Any], *, as_json: bool) -> None:
    """Write the result, or the error that stands for it. Where nobody reads on, it is left."""
    if "error" in message:
        if as_json:
            _write({"error": message["error"]})
        _complain(message["error"]["message"])
    elif as_json:
        _write(message["result"])
    else:
        text = "\n".join(_block(block) for block in message["result"].get("content", ()))
        if message["result"].get("isError"):
            _complain(text)
        elif text:
            _print(inert(text) if sys.stdout.isatty() else _encodable(text))


def _block(block: Mapping[str, Any]) -> str:
    """A text as it is; what else there is by its name and size."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource":
        resource = block.get("resource", {})
        return str(resource["text"]) if "text" in resource else f"[resource {resource.get('uri')}]"
    if kind == "resource_link":
        return f"[link {block.get('uri')}]"
    octets = len(block.get("data", "")) * 3 // 4
    return f"[{kind} {block.get('mimeType', '')}, about {octets} bytes; --json has it]"


def _encodable(text: str) -> str:
    """As it is, but for halves of characters, which tools can produce."""
    return text.encode(errors="replace").decode()


def _write(value: Any) -> None:
    _print(inert_json(value, indent=2))


def _print(text: str) -> None:
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        leave_unread()


def _complain(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{inert(text)}\n")
        sys.stderr.flush()
