"""The lines that hints ask for, with this site's own names in them."""

import os

from mcp_app.conf import settings
from mcp_app.endpoint_settings import NOT_SHARED


def settings_module() -> str:
    """Where the site's settings are; the name that Django's documentation uses where they come from no module."""
    return os.environ.get("DJANGO_SETTINGS_MODULE") or "mysite.settings"


def package() -> str:
    """The site's package, which holds its settings, `asgi.py` and `celery.py`."""
    return settings_module().partition(".")[0]


def indented(*lines: str) -> str:
    return "".join(f"\n    {line}" for line in lines)


def in_settings(*lines: str) -> str:
    return f"In {settings_module().replace('.', '/')}.py:{indented(*lines)}"


def setting(name: str, endpoint: str) -> str:
    """How a setting is written where an endpoint has it: of its own, or as all have it."""
    own = name in settings.endpoints[endpoint] or (settings.ENDPOINTS and name in NOT_SHARED)
    return f'MCP["ENDPOINTS"]["{endpoint}"]["{name}"]' if own else f'MCP["{name}"]'


def celery_app() -> str:
    site = package()
    module = indented(
        "import os",
        "from celery import Celery",
        f'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "{settings_module()}")',
        f'app = Celery("{site}")',
        CONFIGURE,
        "app.autodiscover_tasks()",
    )
    imported = indented(f"from {site}.celery import app as celery_app")
    return f"In {site}/celery.py:{module}\nIn {site}/__init__.py:{imported}"


def asgi_application() -> str:
    """What `asgi.py` needs beyond what `startproject` writes."""
    module = indented(
        "from mcp_app.routing import mcp_application",
        "application = mcp_application(application)",
    )
    return f"In {package()}/asgi.py, at the end:{module}"


def sqlite_database(alias: str) -> tuple[str, ...]:
    return (
        f'DATABASES["{alias}"] = {{',
        '    "ENGINE": "django.db.backends.sqlite3",',
        f'    "NAME": BASE_DIR / "{alias}.sqlite3",',
        '    "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 10, "init_command": "PRAGMA journal_mode=WAL;"},',
        "}",
    )


CONFIGURE = 'app.config_from_object("django.conf:settings", namespace="CELERY")'
ROUTER = 'DATABASE_ROUTERS = ["mcp_app.databases.MCPRouter"]'
BROKER = (
    'CELERY_BROKER_URL = "mcpfs://"',
    'CELERY_BROKER_TRANSPORT_OPTIONS = {"folder": str(BASE_DIR / "broker")}',
)
