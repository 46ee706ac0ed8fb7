"""The company's settings, with `mcp_app`'s at the end. All files are written in the folder `COMPANY_DATA`.

With `MCPSITE_DATABASE`, `MCPSITE_BROKER` and `MCPSITE_CHANNELS` it runs on PostgreSQL and Redis, otherwise on the
embedded parts.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit

DATA = Path(os.environ["COMPANY_DATA"])
SECRET_KEY = "company"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "company.urls"
ASGI_APPLICATION = "company.asgi.application"
AUTH_USER_MODEL = "accounts.Member"
TIME_ZONE = "America/New_York"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "accounts",
    "orders",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
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


def _sqlite(name: str) -> dict[str, object]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": DATA / name, "ATOMIC_REQUESTS": True}


DATABASES = {"default": _sqlite("company.sqlite3"), "ledger": _sqlite("ledger.sqlite3")}
DATABASE_ROUTERS = ["orders.routers.LedgerRouter"]

CELERY_BROKER_URL = os.environ.get("MCPSITE_BROKER", "mcpfs://")
CELERY_TASK_DEFAULT_QUEUE = "company"
CELERY_TASK_ROUTES = {"orders.tasks.book": {"queue": "bookings"}}
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_TIME_LIMIT = 2
CELERY_TASK_SOFT_TIME_LIMIT = 1
CELERY_BEAT_SCHEDULE = {"tick": {"task": "orders.tasks.tick", "schedule": 1.0}}
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA / "beat")

if channels_url := os.environ.get("MCPSITE_CHANNELS"):
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [{"address": channels_url, "socket_timeout": 15}]},
        }
    }
else:
    CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

# Added for mcp_app
INSTALLED_APPS += ["django_celery_results", "mcp_app"]
CELERY_RESULT_BACKEND = "django-db"
CELERY_DB_REUSE_MAX = 1000
MCP = {"AUTHENTICATOR": "accounts.authentication.member_of", "DATABASE": "default"}
if database_url := os.environ.get("MCPSITE_DATABASE"):
    parts = urlsplit(database_url)
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": parts.port or "",
        "ATOMIC_REQUESTS": True,
    }
else:
    CELERY_BROKER_TRANSPORT_OPTIONS = {"folder": str(DATA / "broker")}
    MCP["DATABASE"] = "mcp"
    DATABASE_ROUTERS += ["mcp_app.databases.MCPRouter"]
    DATABASES["mcp"] = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA / "mcp.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 10, "init_command": "PRAGMA journal_mode=WAL;"},
    }
