"""Changes that a test makes in a running stack, as an administrator or the passing of time would."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import Permission, User
from django.utils import timezone

from mcp_app.auth import tokens
from mcp_app.lifecycle import publishing
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.sessions import listen_streams
from mcp_app.lifecycle.statistics import durations
from mcp_app.models import ListenStream, Tally, Tool
from mcp_app.states import Cause


def _cancel(request_id: str, reason: str) -> str:
    return str(cancellation.cancel(request_id, cause=Cause.ADMIN, actor=Actor("root"), reason=reason))


def _publish(request_id: str) -> None:
    """Publish a message for a request in the queue of all tools, whatever the request's state."""
    publishing.send(UUID(request_id), "mcp")


def _limit(tool: str, **limits: float | None) -> None:
    """Set some of the tool's limits, each by its column. `None` stands for the site's limit."""
    row = Tool.objects.get(pk=tool)
    for column, seconds in limits.items():
        setattr(row, column, seconds)
    row.save()


def _make_user(name: str, password: str, permissions: Sequence[str]) -> None:
    """Create a user who may enter the admin, with these permissions of `mcp_app`."""
    user = User.objects.create_user(name, password=password, is_staff=True)
    granted = Permission.objects.filter(content_type__app_label="mcp_app", codename__in=permissions)
    assert granted.count() == len(permissions), f"not all of these exist: {permissions}"
    user.user_permissions.set(granted)


def _make_token(user: str) -> str:
    """Issue a token for a user, and return the text that clients send."""
    return tokens.issue(User.objects.get(username=user), "laptop", by="root").text


def _close_listen_streams(number: int) -> int | None:
    """Close all listen streams if there are exactly `number` of them, and return `None` otherwise."""
    found = list(ListenStream.objects.values_list("pk", flat=True))
    return listen_streams.close(found, by="root") if len(found) == number else None


def _tally(tool: str, ended: Sequence[Sequence[Any]]) -> None:
    """Tally calls of a tool that were never made.

    Each item has: hours ago, measure, status, cause, stage, seconds, number of calls.
    """
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    names = ("measure", "status", "cause", "stage")
    for hours_ago, *kind, seconds, count in ended:
        bucket = durations.bucket_of(seconds)
        together = (seconds or 0.0) * count
        columns = {**dict(zip(names, kind, strict=True)), "bucket": bucket, "count": count, "seconds": together}
        Tally.objects.create(tool=tool, hour=hour - timedelta(hours=hours_ago), **columns)


ANSWERS: Final[dict[str, Callable[..., Any]]] = {
    "cancel": _cancel,
    "close listen streams": _close_listen_streams,
    "limit": _limit,
    "make token": _make_token,
    "make user": _make_user,
    "publish": _publish,
    "tally": _tally,
}
