"""Settings of the example site: embedded parts by default, real engines by environment variables.

MCPSITE_DATA           folder of the databases, the broker's files, uploads and the generated secret
MCPSITE_DATABASE       another database than SQLite: postgresql://user:password@host:port/name, or mysql://…
MCPSITE_BROKER         a broker's URL instead of the embedded one
MCPSITE_CHANNELS       a Redis URL for the channel layer, which a site on several hosts needs
MCPSITE_AUTHENTICATOR  the function that authenticates callers; by default mcp_app.auth.tokens.bearer, but with
                       MCPSITE_DEBUG=1 clients on this machine need a token only for tools that require staff
MCPSITE_DEBUG          1 (the default) or 0
MCPSITE_HOSTS          ALLOWED_HOSTS, separated by spaces
MCPSITE_SECRET_KEY     the same on every host; generated and stored in the data folder if it is not set
MCPSITE_PROJECTS       folder of projects that tools check, test and change; by default `projects` in the data folder
"""

import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

os.umask(0o077)  # files of this site, with sessions and tokens, are readable by its own user only

BASE_DIR = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("MCPSITE_DATA", BASE_DIR / ".mcpsite-data")).resolve()
DATA.mkdir(parents=True, exist_ok=True)
with suppress(PermissionError):  # the folder belongs to another user; `mcp doctor` reports files that others can read
    if (DATA / "secret-key").exists() or not any(DATA.iterdir()):  # it may have been made by an earlier version
        DATA.chmod(0o700)
PROJECTS = Path(os.environ.get("MCPSITE_PROJECTS", DATA / "projects")).resolve()


def _secret_key() -> str:
    """Return the site's secret key: from the environment, or generated once and stored in the data folder."""
    if key := os.environ.get("MCPSITE_SECRET_KEY"):
        return key
    path = DATA / "secret-key"
    if not path.exists():
        descriptor, draft = tempfile.mkstemp(dir=DATA)  # readable by its owner only
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
        # Linked when it is complete, so that processes that start at the same time use the same key.
        with suppress(FileExistsError):
            os.link(draft, path)
        os.unlink(draft)
    return path.read_text()


def _sqlite(name: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "CONN_MAX_AGE": None,
        "NAME": DATA / name,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 10,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=10000;",
        },
    }


def _database_server(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {
        "ENGINE": f"django.db.backends.{parts.scheme}",
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname or "",
        "PORT": parts.port or "",
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": _SERVER_OPTIONS[parts.scheme],
    }


_SERVER_OPTIONS: dict[str, dict[str, Any]] = {
    "postgresql": {
        # A dead connection, for example after a fail-over, is closed within seconds instead of 15 minutes.
        "tcp_user_timeout": 15_000,
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        # PostgreSQL plans a repeated statement once. Leave both out behind pgBouncer in transaction mode.
        "server_side_binding": True,
        "prepare_threshold": 5,
    },
    "mysql": {"charset": "utf8mb4", "connect_timeout": 10},
}


SECRET_KEY = _secret_key()
DEBUG = os.environ.get("MCPSITE_DEBUG", "1") == "1"
ALLOWED_HOSTS: list[str] = os.environ.get("MCPSITE_HOSTS", "").split()

INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "django_celery_results",
    *(["chartkick.django"] if find_spec("chartkick") else []),
    "mcp_app",
    "mcpsite",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "mcpsite.urls"
ASGI_APPLICATION = "mcpsite.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

if database_url := os.environ.get("MCPSITE_DATABASE"):
    DATABASES = {"default": _database_server(database_url)}
    MCP_DATABASE = "default"
else:
    DATABASES = {"default": _sqlite("site.sqlite3"), "mcp": _sqlite("mcp.sqlite3")}
    DATABASE_ROUTERS = ["mcp_app.databases.MCPRouter"]
    MCP_DATABASE = "mcp"

if channels_url := os.environ.get("MCPSITE_CHANNELS"):
    # redis-py ends a read after 5 s. The layer blocks as long in one read, so that an idle layer would always fail.
    channels_host = {"address": channels_url, "socket_timeout": 15}
    CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [channels_host]}}
    }

CELERY_BROKER_URL = os.environ.get("MCPSITE_BROKER", "mcpfs://")
if CELERY_BROKER_URL.startswith("mcpfs:"):
    CELERY_BROKER_TRANSPORT_OPTIONS = {"folder": str(DATA / "broker")}
CELERY_RESULT_BACKEND = "django-db"
CELERY_RESULT_EXTENDED = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_TIMEOUT = 2.0
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_ACKS_LATE = False
CELERY_DB_REUSE_MAX = 1000

_authenticator = os.environ.get("MCPSITE_AUTHENTICATOR")
MCP: dict[str, Any] = {
    "DATABASE": MCP_DATABASE,
    "SERVER_NAME": "mcpsite",
    "SERVER_TITLE": "mcp_app example site",
    "AUTHENTICATOR": _authenticator or "mcp_app.auth.tokens.bearer",
    "ALLOW_ANONYMOUS": "local" if DEBUG and not _authenticator else None,
}

UPLOADS = DATA / "uploads"
"""The folder with files for the tools `import_csv` and `run_command`. They read nothing outside of it."""
UPLOADS.mkdir(exist_ok=True)

_SHA256 = ["sha256sum"] if shutil.which("sha256sum") else ["shasum", "-a", "256"]
MCPSITE_COMMANDS: dict[str, dict[str, Any]] = {
    "list_files": {"does": "list a folder", "argv": ["ls", "-l", "{folder:path}"]},
    "disk_usage": {"does": "the size of a file or folder, in KiB", "argv": ["du", "-k", "{path:path}"]},
    "checksum": {"does": "the SHA-256 of a file", "argv": [*_SHA256, "{file:file}"]},
    "search": {"does": "the lines that contain a text", "argv": ["grep", "-rnIF", "-e", "{text:text}", "{path:path}"]},
    "follow": {
        "does": "the last lines of a file, then each line added to it, until cancelled",
        "argv": ["tail", "-n", "{lines:number}", "-f", "{file:file}"],
    },
}
"""The commands of the tool `run_command`. Each `{name:type}` is one argument (see `mcpsite.commands`)."""
