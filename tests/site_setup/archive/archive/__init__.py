"""A document archive with unusual settings for Celery and Channels, to which `mcp_app` was added."""

from archive.celery import app as celery_app

__all__ = ["celery_app"]
