"""The example site: a small Django project with `mcp_app` in it. Nothing here is reusable."""

from mcpsite.celery import app as celery_app

__all__ = ["celery_app"]
