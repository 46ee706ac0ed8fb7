"""The lines that the hints of checks ask to add, with the names of this site."""

import os
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings as django_settings

from mcp_app.conf import settings
from mcp_app.endpoint_settings import NOT_SHARED


def settings_module() -> str:
    """Return the settings module, or the one of Django's documentation if there is none."""
    return os.environ.get("DJANGO_SETTINGS_MODULE") or "mysite.settings"


def package() -> str:
    """Return the site's package, which has `asgi.py`, `urls.py` and `celery.py`."""
    module = settings_module() if "." in settings_module() else str(django_settings.ROOT_URLCONF)
    return module.partition(".")[0]


def indented(*lines: str) -> str:
    return "".join(f"\n    {line}" for line in lines)


def in_settings(*lines: str) -> str:
    return f"In {_settings_file()}:{indented(*lines)}"


def in_folder(name: str) -> str:
    """Return an expression for a file in the site's folder, with `BASE_DIR` if it is set."""
    base = getattr(django_settings, "BASE_DIR", None)
    if isinstance(base, Path):
        return f'BASE_DIR / "{name}"'
    return f'os.path.join(BASE_DIR, "{name}")' if isinstance(base, str) else repr(os.path.join(os.getcwd(), name))


def _settings_file() -> str:
    """Return the name of the settings' file, with a hint if they may be split into several."""
    module = settings_module()
    path = module.replace(".", "/")
    if _is_package(module):
        return f"{path}/__init__.py, or a file that it imports"
    return f"{path}.py, or a file that it imports" if module.count(".") > 1 else f"{path}.py"


def _is_package(module: str) -> bool:
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.submodule_search_locations is not None


def silenced(check_id: str) -> str:
    return indented(f'SILENCED_SYSTEM_CHECKS = ["{check_id}"]')


def setting(name: str, endpoint: str) -> str:
    """Return how a setting of an endpoint is written: as its own, or as one that all share."""
    own = name in settings.endpoints[endpoint] or (settings.ENDPOINTS and name in NOT_SHARED)
    return f'MCP["ENDPOINTS"]["{endpoint}"]["{name}"]' if own else f'MCP["{name}"]'


def celery_import() -> str:
    """Return the line that imports the site's Celery app when Django starts, as Celery's guide has it."""
    site = package()
    return f"In {site}/__init__.py:" + indented(f"from {site}.celery import app as celery_app")


def asgi_application(path: str) -> str:
    """Return the lines to add to the module of an ASGI application with this dotted path."""
    module = indented(
        "from mcp_app.routing import mcp_application",
        "application = mcp_application(application)",
    )
    return f"In {path.rpartition('.')[0].replace('.', '/')}.py, at the end:{module}"


def new_asgi_module(path: str) -> str:
    """Return the lines of a new module for an ASGI application, on a site that has only WSGI."""
    module = indented(
        "import os",
        "from django.core.asgi import get_asgi_application",
        f'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "{settings_module()}")',
        "application = get_asgi_application()",
        "from mcp_app.routing import mcp_application",
        "application = mcp_application(application)",
    )
    return f"In {path.rpartition('.')[0].replace('.', '/')}.py, a new file:{module}"


def sqlite_database(alias: str) -> tuple[str, ...]:
    return (
        f'DATABASES["{alias}"] = {{',
        '    "ENGINE": "django.db.backends.sqlite3",',
        f'    "NAME": {in_folder(f"{alias}.sqlite3")},',
        '    "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 10, "init_command": "PRAGMA journal_mode=WAL;"},',
        "}",
    )


def broker() -> tuple[str, str]:
    folder = in_folder("broker")
    text = f"str({folder})" if folder.startswith("BASE_DIR") else folder
    return 'CELERY_BROKER_URL = "mcpfs://"', f'CELERY_BROKER_TRANSPORT_OPTIONS = {{"folder": {text}}}'


CONFIGURE = 'app.config_from_object("django.conf:settings", namespace="CELERY")'
ROUTER = 'DATABASE_ROUTERS = ["mcp_app.databases.MCPRouter"]'
