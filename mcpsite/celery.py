"""The site's Celery app. It uses the embedded broker unless the environment names another one."""

import os

from celery import Celery

from mcp_app.embedded.broker import register

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcpsite.settings")
register()

app = Celery("mcpsite")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
