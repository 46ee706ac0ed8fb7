"""Prints the result of a call to standard output, a summary to standard error, and chooses the exit status.

Source of the content types: 2026-07-28 server/tools, "Tool Result".
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from mcp_app.management.interruptions import leave_unread
from mcp_app.management.requests.cancel import describe_end
from mcp_app.models import Request
from mcp_app.presentation.formatting import between
from mcp_app.safe_text import safe_json_text, safe_text
from mcp_app.states import Status

DONE: Final = 0
FAILED: Final = 1
INTERRUPTED: Final = 130
"""The exit status of a call that was cancelled from here, as usual after Ctrl-C."""


def log_line(params: Mapping[str, Any]) -> str:
    """Return a `notifications/message` as a line."""
    data = params.get("data")
    text = data if isinstance(data, str) else safe_json_text(data)
    logger = f"{params['logger']}: " if params.get("logger") else ""
    return f"{params.get('level', '')}: {logger}{text}"


def summary(row: Request) -> str:
    """Return a line about the end of a call: its status, its duration, and the id for more details."""
    described = describe_end(row) if row.cancel_requested_at is not None else str(Status(row.status).label)
    return f"{described}, {between(row.submitted_at, row.finished_at)} in all: request {row.pk}"


def status(message: Mapping[str, Any] | None, row: Request | None, *, stopped: bool) -> int:
    """Return the exit status. `message` is the response, if any; `stopped`: it was cancelled from here."""
    if stopped and (row is None or row.status == Status.CANCELLED):
        return INTERRUPTED
    return DONE if message is not None and "result" in message and not message["result"].get("isError") else FAILED


def show(message: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the result or the error. If standard output is closed, print nothing."""
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
            _print(safe_text(text) if sys.stdout.isatty() else _encodable(text))


def _block(block: Mapping[str, Any]) -> str:
    """Print text literally, and any other content by its type and size."""
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
    """Return the text without lone surrogates, which tools can produce."""
    return text.encode(errors="replace").decode()


def _write(value: Any) -> None:
    _print(safe_json_text(value, indent=2))


def _print(text: str) -> None:
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        leave_unread()


def _complain(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{safe_text(text)}\n")
        sys.stderr.flush()
