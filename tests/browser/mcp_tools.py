"""Tools to be watched and stopped from the admin; what they do is seen from outside, as lines in a file."""

from pathlib import Path
from typing import Final

from mcp_app.tools import CancelPolicy, ToolContext, tool
from tests.everything.steps import Steps

STEP: Final = 0.05
POLL: Final = 0.02


@tool(title="Index documents", cancel=CancelPolicy.INTERRUPT)
def index_documents(path: str, documents: int, ctx: ToolContext) -> str:
    """Index documents one by one, appending a line to the file for each; when cancelled, say which are done."""
    steps = Steps(path, documents * STEP, STEP)
    ctx.log("info", f"{documents} documents to index")
    while steps.remain:
        ctx.partial_result = f"{steps.taken} of {documents} documents are indexed"
        ctx.progress(steps.taken, documents, f"document {steps.taken}")
        steps.take()
        ctx.sleep(STEP)
    return steps.summary


@tool(title="Wait for a file", cancel=CancelPolicy.INTERRUPT)
def wait_for_file(path: str, ctx: ToolContext) -> str:
    """Wait until the file is there."""
    while not Path(path).exists():
        ctx.sleep(POLL)
    return "It is there."


@tool(title="Hostile", cancel=CancelPolicy.INTERRUPT)
def hostile_texts(text: str, ctx: ToolContext) -> str:
    """Say hostile things in every way a tool has, and wait to be cancelled."""
    ctx.log("error", text, logger_name=text)
    ctx.progress(1, 2, text)
    ctx.partial_result = text
    ctx.sleep(600)
    return text
