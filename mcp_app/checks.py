"""System checks: what a site's set-up lacks or gets wrong, with the lines to add.

Run by every management command and by `mcp serve`. They read settings only, so that they also help where no database
and no broker can be reached.
"""

import logging
from typing import Any

from celery import current_app
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004 - Django's name
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections, router

from mcp_app.conf import settings
from mcp_app.models import Tool

_CELERY_LINES = """In <site>/celery.py:
    app = Celery("<site>")
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.autodiscover_tasks()
In <site>/__init__.py:
    from <site>.celery import app as celery_app"""

_EMBEDDED_LINES = """In the settings:
    DATABASES["mcp"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "mcp.sqlite3"}
    DATABASE_ROUTERS = ["mcp_app.databases.MCPRouter"]
    MCP = {"DATABASE": "mcp"}"""


@register
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """MCP has known names only; its database exists, holds the app's rows and, on SQLite, nothing that tools write."""
    try:
        alias = settings.DATABASE
    except ImproperlyConfigured as error:
        return [Error(str(error), hint="Remove or correct the name in the settings' MCP.", id="mcp_app.E001")]
    if alias not in connections:
        known = ", ".join(connections)
        hint = f'Add DATABASES["{alias}"], or set MCP["DATABASE"] to one of: {known}.'
        return [Error(f'MCP["DATABASE"] names {alias!r}, which DATABASES has not.', hint=hint, id="mcp_app.E002")]
    if settings.LOG_LEVEL not in logging.getLevelNamesMapping():
        hint = "Name a level of Python's logging, such as INFO or WARNING."
        return [Error(f'MCP["LOG_LEVEL"] is {settings.LOG_LEVEL!r}, which is no level.', hint=hint, id="mcp_app.E006")]
    if router.db_for_write(Tool) != alias:
        hint = 'Add DATABASE_ROUTERS = ["mcp_app.databases.MCPRouter"], before any router that claims mcp_app.'
        return [Error(f"The rows of mcp_app do not go to the database {alias!r}.", hint=hint, id="mcp_app.E003")]
    if alias == DEFAULT_DB_ALIAS and connections[alias].vendor == "sqlite":
        message = "On SQLite a tool that writes to the site's tables would hold up cancellations and progress."
        return [Warning(message, hint=_EMBEDDED_LINES, id="mcp_app.W001")]
    return []


@register
def check_celery(**kwargs: Any) -> list[CheckMessage]:
    """The site has a Celery app, and its results are kept."""
    if current_app.main == "default" and not current_app.configured:
        return [Error("The site has no Celery app, which runs the tools.", hint=_CELERY_LINES, id="mcp_app.E004")]
    if not current_app.conf.result_backend:
        hint = 'Add "django_celery_results" to INSTALLED_APPS and CELERY_RESULT_BACKEND = "django-db".'
        message = "Celery keeps no results: its own view of a call is missing beside the request."
        return [Warning(message, hint=hint, id="mcp_app.W002")]
    return []


@register
def check_asgi(**kwargs: Any) -> list[CheckMessage]:
    """The site names the ASGI application that serves the endpoint."""
    if getattr(django_settings, "ASGI_APPLICATION", None):
        return []
    hint = (
        'Add ASGI_APPLICATION = "<site>.asgi.application", and in <site>/asgi.py:\n'
        "    application = mcp_application(get_asgi_application())  # from mcp_app.routing"
    )
    return [Error("ASGI_APPLICATION is not set.", hint=hint, id="mcp_app.E005")]
