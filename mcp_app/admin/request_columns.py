"""What the lists of requests tell about each: one method for a column. Reads nothing but the row."""

from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from mcp_app.admin.formatting import badge, progress_bar
from mcp_app.lifecycle import clock
from mcp_app.lifecycle.inert import inert
from mcp_app.models import Request
from mcp_app.states import Cause, Stage, Status
from mcp_app.telling.facts import TEXT_CHARS, standing
from mcp_app.telling.formatting import NOTHING, between, moment
from mcp_app.telling.whereabouts import last_word, place

NAME_CHARS = 80


def status_badge(row: Request) -> SafeString:
    """The status; of a request that is to stop and still runs, both, and whether it can be stopped where it runs."""
    told = standing(row)
    shown = badge("stopping" if told.stopping else row.status, told.label)
    return format_html('{} <span class="mcp-quiet">{}</span>', shown, told.remark) if told.remark else shown


def text(value: object, limit: int = TEXT_CHARS) -> SafeString:
    """A text that came from outside, as it can be shown."""
    return isolated(inert(value, limit) or NOTHING)


def isolated(words: str) -> SafeString:
    """An inert text kept to itself: its direction does not reach its neighbours."""
    return format_html('<bdi class="mcp-text">{}</bdi>', words)


class RequestColumns:
    """Columns of a list whose rows carry `client_name` and `client_version`, each cut to `NAME_CHARS`."""

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
        """Of rows with a `place` and `signs`: where it waits, or when its worker was last heard of."""
        if hasattr(row, "left"):
            return text("")
        status = Status(row.status)
        if status == Status.QUEUED and row.place is not None:
            return text(place(row.place))
        if status == Status.RUNNING:
            heard = last_word(row.signs)
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
