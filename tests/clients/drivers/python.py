"""Code that the Python clients share, because they use the same types."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import mcp_types
from lines import Report, connection, tell

MODERN = connection["era"] == "modern"
MODE = "auto" if MODERN else "legacy"

_answers: deque[dict[str, Any]] = deque()


async def answer(report: Report, answers: list[dict[str, Any]]) -> None:
    """Set the user's answers to the next questions, in order."""
    _answers.clear()
    _answers.extend(answers)


def answer_to(params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
    assert isinstance(params, mcp_types.ElicitRequestFormParams)
    tell(asked=params.message, fields=list(params.requested_schema["properties"]))
    return mcp_types.ElicitResult(**_answers.popleft())


async def cancelled() -> None:
    """Wait until this task is cancelled."""
    await asyncio.Event().wait()


async def on_message(message: object) -> None:
    """Report a change that a legacy server has notified."""
    if isinstance(message, mcp_types.ToolListChangedNotification):
        tell(changed="tools")
    elif isinstance(message, mcp_types.ResourceUpdatedNotification):
        tell(changed=message.params.uri)


def text_of(contents: Sequence[object]) -> str:
    """Return the text of the first block, or of the first part of a resource."""
    assert isinstance(contents[0], mcp_types.TextContent | mcp_types.TextResourceContents)
    return contents[0].text
