"""Check that the site's admin has the pages of this app."""

from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Warning, register  # noqa: A004 - Django's name
from django.urls import NoReverseMatch, reverse

from mcp_app.checks import lines

_LINES = ("from mcp_app.admin import register_pages", "register_pages(my_admin_site)")


@register
def check_admin(**kwargs: Any) -> list[CheckMessage]:
    """Check that an admin in the site's URLs has the pages, which are registered with Django's default admin site."""
    if not apps.is_installed("django.contrib.admin") or not _is_page("admin:index"):
        return []
    if _is_page("admin:mcp_app_request_changelist"):
        return []
    message = "The admin in the site's URLs is an admin site of its own, which does not have the pages of mcp_app."
    hint = f"In {lines.package()}/urls.py:{lines.indented(*_LINES)}"
    return [Warning(message, hint=hint, id="mcp_app.W044")]


def _is_page(name: str) -> bool:
    try:
        reverse(name)
    except NoReverseMatch:
        return False
    return True
