"""A tool that sends its user to a page to sign."""

from mcp_app.tools import ToolContext, tool


@tool(requires={"elicitation": {"url": {}}})
def sign(document: str, ctx: ToolContext) -> str:
    """Have a document signed."""
    answer = ctx.elicit_page("page", f"Sign {document}.", "sign")
    return f"{document}: {answer.action} {answer.content}"
