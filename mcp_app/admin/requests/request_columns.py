"""The columns of the lists of requests, one method each. They send no query."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from mcp_app.admin.lists.formatting import badge, progress_bar
from mcp_app.lifecycle.database import clock
from mcp_app.models import Request
from mcp_app.presentation.facts import TEXT_CHARS, describe_heartbeat, describe_place, describe_status
from mcp_app.presentation.formatting import NOTHING, between, moment
from mcp_app.safe_text import safe_text
from mcp_app.states import Cause, Stage, Status

NAME_CHARS = 80


def status_badge(row: Request) -> SafeString:
    """Return the status. For a running request that was cancelled, add that, and whether its worker can stop it."""
    described = describe_status(row)
    shown = badge("stopping" if described.stopping else row.status, described.label)
    return format_html('{} <span class="mcp-quiet">{}</span>', shown, described.remark) if described.remark else shown


def text(value: object, limit: int = TEXT_CHARS) -> SafeString:
    """Return untrusted text, made safe to show."""
    return isolated(safe_text(value, limit) or NOTHING)


def isolated(words: str) -> SafeString:
    """Return safe text in an element of its own, so that its direction does not affect its neighbours."""
    return format_html('<bdi class="mcp-text">{}</bdi>', words)


def text_column(name: str, description: Any, limit: int = TEXT_CHARS, *, ordering: str | None = None) -> Any:
    """Return a column of untrusted text, for `list_display` and `readonly_fields`."""

    @admin.display(description=description, ordering=ordering)
    def shown(row: Any) -> SafeString:
        return text(getattr(row, name), limit)

    return staticmethod(named(shown, name))


def named(column: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Name a column's function, because Django derives the CSS class of the cells from it."""
    column.__name__ = f"shown_{name}"
    return column


class RequestColumns:
    """Columns of a list whose rows have the fields of `request_lists.FETCHED`, and `client_name` and `client_version`.

    Both are annotations, each cut to `NAME_CHARS`.
    """

    @admin.display(description=_("status"))
    def state(self, row: Request) -> SafeString:
        return status_badge(row)

    @admin.display(description=_("tool"))
    def called(self, row: Request) -> SafeString:
        return text(row.tool)

    @admin.display(description=_("caller"))
    def caller(self, row: Request) -> SafeString:
        return text(row.principal_label, NAME_CHARS)

    @admin.display(description=_("client"))
    def client(self, row: Request) -> SafeString:
        named = (getattr(row, "client_name", None), getattr(row, "client_version", None))
        return text(" ".join(part for part in named if part))

    @admin.display(description=_("submitted"), ordering="submitted_at")
    def submitted(self, row: Request) -> str:
        return moment(row.submitted_at)

    @admin.display(description=_("duration"))
    def took(self, row: Request) -> str:
        return between(row.submitted_at, row.finished_at or clock.now())

    @admin.display(description=_("queue or worker"))
    def whereabouts(self, row: Any) -> SafeString:
        """Return the place in the queue, or the time of the worker's last sign, for rows with a `place` and `signs`."""
        if hasattr(row, "left"):
            return text("")
        status = Status(row.status)
        if status == Status.QUEUED and row.place is not None:
            return text(describe_place(row.place))
        if status == Status.RUNNING:
            heard = describe_heartbeat(row.signs)
            return badge("lost", heard) if row.signs is None or row.signs.is_silent else text(heard)
        return text(_("waits for its client") if status == Status.INPUT_REQUIRED else "")

    @admin.display(description=_("progress"))
    def done(self, row: Request) -> str:
        return progress_bar(row.progress, row.progress_total)

    @admin.display(description=_("last message"))
    def said(self, row: Request) -> SafeString:
        return text(row.progress_message)

    @admin.display(description=_("cause"))
    def cause(self, row: Request) -> str:
        return str(Cause(row.cancel_cause).label)

    @admin.display(description=_("asked by"))
    def actor(self, row: Request) -> SafeString:
        return text(row.cancel_actor, NAME_CHARS)

    @admin.display(description=_("reason"))
    def reason(self, row: Request) -> SafeString:
        return text(row.cancel_reason)

    @admin.display(description=_("stage"))
    def reached(self, row: Request) -> str:
        return str(Stage(row.stage).label)

    @admin.display(description=_("cancel requested"), ordering="cancel_requested_at")
    def asked(self, row: Request) -> str:
        return moment(row.cancel_requested_at)

    @admin.display(description=_("stopped after"))
    def stopped_after(self, row: Request) -> str:
        return between(row.cancel_requested_at, row.finished_at)
