"""What is kept of payloads: the site's function that says so can be used. Else a marker is kept of each."""

from typing import Any

from django.core.checks import CheckMessage, Tags, register

from mcp_app.checks import functions, lines
from mcp_app.checks.values import readable
from mcp_app.conf import settings

_FUNCTION = lines.indented("def redact(kind, tool, value):  # → what is kept of the value", "    …")


@register(Tags.security)
def check_redaction(**kwargs: Any) -> list[CheckMessage]:
    """`MCP["REDACT"]` is a plain function."""
    if not readable() or settings.REDACT is None:
        return []
    return functions.check(
        'MCP["REDACT"]', settings.REDACT, _FUNCTION, unusable="mcp_app.E022", not_plain="mcp_app.E023"
    )
