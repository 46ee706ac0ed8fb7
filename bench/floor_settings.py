"""Settings of the bare Celery app that the site is compared with: the same engines and Celery options."""

from mcpsite.settings import *  # noqa: F403

INSTALLED_APPS = ["django_celery_results"]
ROOT_URLCONF = ""
