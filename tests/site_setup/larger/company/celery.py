"""The company's Celery app."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "company.settings")

app = Celery("company")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
