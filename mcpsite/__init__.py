"""The example site: a small Django project that uses `mcp_app`."""

from mcpsite.celery import app as celery_app

__all__ = ["celery_app"]
