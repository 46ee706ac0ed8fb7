"""What stands around tools: each factory that the site names can be called."""

from typing import Any

from django.core.checks import CheckMessage, register

from mcp_app.checks import functions, lines
from mcp_app.checks.values import readable, well_typed
from mcp_app.conf import settings

_FACTORY = lines.indented(
    "def factory(get_result):", "    def middleware(ctx):", "        return get_result(ctx)", "    return middleware"
)


@register
def check_middleware(**kwargs: Any) -> list[CheckMessage]:
    """`MCP["MIDDLEWARE"]` names plain functions."""
    if not readable() or not well_typed():
        return []
    checked = (
        functions.check("MIDDLEWARE", path, _FACTORY, unusable="mcp_app.E030", not_plain="mcp_app.E031")
        for path in settings.MIDDLEWARE
    )
    return [message for messages in checked for message in messages]
