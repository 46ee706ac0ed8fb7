"""Code that tools call without passing their context."""

from mcp_app.tools import current_context


def quote(cents: int) -> str:
    context = current_context()
    context.progress(1, 1, "priced")
    return f"{cents} cents for {context.user}"
