"""A document archive with its own ways with Celery and Channels, and with `mcp_app` added as a guest."""

from archive.celery import app as celery_app

__all__ = ["celery_app"]
