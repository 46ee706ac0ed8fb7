"""`ASGI_APPLICATION`: it is named, can be imported, and has the endpoints in it."""

from typing import Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, register
from django.utils.module_loading import import_string

from mcp_app.checks import lines
from mcp_app.checks.values import readable
from mcp_app.conf import settings
from mcp_app.transport.consumers import MCPConsumer


@register
def check_asgi(**kwargs: Any) -> list[CheckMessage]:
    """Imports the application, as every server does, and asks whether an endpoint was made meanwhile."""
    path = getattr(django_settings, "ASGI_APPLICATION", None)
    if not readable():
        return []
    if not path:
        hint = lines.in_settings(f'ASGI_APPLICATION = "{lines.package()}.asgi.application"')
        return [Error("ASGI_APPLICATION is not set.", hint=hint, id="mcp_app.E005")]
    try:
        import_string(path)
    except Exception as error:
        message = f"ASGI_APPLICATION, {path}, cannot be imported: {type(error).__name__}: {error}"
        hint = "Mend what the error says; `startproject` writes an asgi.py, which needs nothing but the lines:"
        return [Error(message, hint=f"{hint}\n{lines.asgi_application()}", id="mcp_app.E009")]
    missing = [endpoint for endpoint in settings.endpoints if endpoint not in MCPConsumer.mounted]
    if not missing:
        return []
    what = f"the endpoints {', '.join(missing)}" if settings.ENDPOINTS else "MCP"
    message = f"ASGI_APPLICATION, {path}, does not serve {what}."
    return [Error(message, hint=lines.asgi_application(), id="mcp_app.E010")]
