"""Tools to be watched and stopped from the admin; what they do is seen from outside, as lines in a file."""

from typing import Final

from mcp_app.tools import CancelPolicy, ToolContext, tool
from tests.browser import hostile
from tests.everything.steps import Steps

STEP: Final = 0.1


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


@tool(title="Hostile", cancel=CancelPolicy.INTERRUPT)
def hostile_texts(text: str, ctx: ToolContext) -> str:
    """Say hostile things in every way a tool has, and wait to be cancelled."""
    ctx.log("error", hostile.TEXT, logger_name=hostile.TEXT)
    ctx.progress(1, 2, hostile.TEXT)
    ctx.partial_result = hostile.TEXT
    ctx.sleep(600)
    return text
