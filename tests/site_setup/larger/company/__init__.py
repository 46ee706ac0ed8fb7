"""A project that had users, an admin, Celery, Channels and two databases before `mcp_app` was added to it."""

from company.celery import app as celery_app

__all__ = ["celery_app"]
