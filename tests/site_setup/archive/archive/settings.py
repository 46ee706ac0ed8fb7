"""The archive's settings, with `mcp_app`'s at the end. The archive writes only in the folder `ARCHIVE_DATA`."""

import os
from pathlib import Path

DATA = Path(os.environ["ARCHIVE_DATA"])
SECRET_KEY = "archive"
DEBUG = True
ROOT_URLCONF = "archive.urls"
ASGI_APPLICATION = "archive.asgi.application"
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
    "documents",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
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
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATA / "archive.sqlite3"}}
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

CELERY_BROKER_URL = "mcpfs://"
CELERY_BROKER_TRANSPORT_OPTIONS = {"folder": str(DATA / "broker")}
CELERY_TASK_SERIALIZER = "signed"
CELERY_ACCEPT_CONTENT = ["application/json", "application/x-signed-json"]
CELERY_TASK_TIME_LIMIT = 3
CELERY_TASK_SOFT_TIME_LIMIT = 1

# Added for mcp_app
INSTALLED_APPS += ["mcp_app"]
MCP = {"DATABASE": "mcp"}
DATABASES["mcp"] = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": DATA / "mcp.sqlite3",
    "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 10, "init_command": "PRAGMA journal_mode=WAL;"},
}
DATABASE_ROUTERS = ["mcp_app.databases.MCPRouter"]
CELERY_DB_REUSE_MAX = 1000
