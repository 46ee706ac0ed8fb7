"""Settings of the bare Celery app, with the engines and Celery options of the site that it is compared with."""

from mcpsite.settings import *  # noqa: F403

INSTALLED_APPS = ["django_celery_results"]
ROOT_URLCONF = ""
