"""Check the site's ASGI application: it can be imported, and serves the endpoints."""

import sys
from importlib.util import find_spec
from typing import Any, Final

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Warning, register  # noqa: A004 - Django's name
from django.core.management import get_commands
from django.utils.module_loading import import_string

from mcp_app.checks import lines
from mcp_app.checks.values import is_readable
from mcp_app.conf import settings
from mcp_app.routing import asgi_path
from mcp_app.transport.consumers import MCPConsumer

WSGI_ONLY: Final = ("django.core", "django.contrib.staticfiles")
"""The apps whose `runserver` runs WSGI."""


@register
def check_asgi(**kwargs: Any) -> list[CheckMessage]:
    """Import the application, as a server does, and check that it has created the endpoints."""
    if not is_readable():
        return []
    path = asgi_path()
    try:
        import_string(path)
    except Exception as error:
        message = f"The ASGI application {path} cannot be imported: {type(error).__name__}: {error}"
        if not _has_module(path):
            return [Warning(message, hint=lines.new_asgi_module(path), id="mcp_app.W032")]
        hint = "Fix the error. To the asgi.py that `startproject` writes, add only these lines:"
        return [Warning(message, hint=f"{hint}\n{lines.asgi_application(path)}", id="mcp_app.W032")]
    missing = [endpoint for endpoint in settings.endpoints if endpoint not in MCPConsumer.mounted]
    if not missing:
        return []
    what = f"the endpoints {', '.join(missing)}" if settings.ENDPOINTS else "MCP"
    message = f"The ASGI application {path} does not serve {what}."
    return [Warning(message, hint=lines.asgi_application(path), id="mcp_app.W033")]


def _has_module(path: str) -> bool:
    try:
        return find_spec(path.rpartition(".")[0]) is not None
    except ModuleNotFoundError:  # of its package
        return False


@register
def check_runserver(**kwargs: Any) -> list[CheckMessage]:
    """Warn if `runserver` does not serve MCP, because Django's own `runserver` does not run ASGI.

    Only `runserver` itself shows this warning, because most sites use another server.
    """
    if sys.argv[1:2] != ["runserver"] or get_commands()["runserver"] not in WSGI_ONLY:
        return []
    added = ['INSTALLED_APPS = ["daphne", *INSTALLED_APPS]']
    if not getattr(django_settings, "ASGI_APPLICATION", None):
        added.append(f'ASGI_APPLICATION = "{asgi_path()}"')
    hint = lines.in_settings(*added)
    hint += "\nor serve the site by `manage.py mcp serve`, which also starts a worker for the tools."
    return [Warning("runserver does not serve MCP: it does not run ASGI.", hint=hint, id="mcp_app.W039")]
