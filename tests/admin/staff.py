"""Members of the staff, each with a browser's session, and what they find on a page."""

import html
import re

from django.contrib.auth.models import Permission, User
from django.test import Client


def log_in(*permissions: str) -> Client:
    """A browser in which somebody has logged in who has these permissions of `mcp_app`, and no others."""
    user = User.objects.create_user(f"staff{User.objects.count()}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="mcp_app", codename__in=permissions))
    return _browser(user)


def log_in_as_superuser() -> Client:
    return _browser(User.objects.create_superuser("root"))


def text(response) -> str:
    """What a person reads: the page without its tags, white space made single spaces."""
    assert response.status_code == 200
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", response.content.decode(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def _browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client
