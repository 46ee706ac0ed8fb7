"""The addresses to request: every page of the app's admin, and every list with each filter, order and page.

The filters, sortable columns and pages come from the lists themselves. All requests are GETs that change nothing. The
export is left out, because it is a stream of all rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ORDER_VAR, PAGE_VAR, SEARCH_VAR
from django.db.models import Model
from django.test import RequestFactory
from django.urls import reverse

from bench.admin.filling import Site
from mcp_app.admin.dashboard.filters import PERIODS
from mcp_app.models import (
    Cancellation,
    CancelledRequest,
    InFlightRequest,
    ListenStream,
    Request,
    Session,
    Token,
    Tool,
)
from mcp_app.states import Status

_CHOICES: Final = 12
"""From a filter with more choices only the first and the last are used, such as the most and least called tools."""
_LISTS: Final = (Request, InFlightRequest, CancelledRequest, Cancellation, Session, ListenStream, Token, Tool)
_WORDS: Final = ("caller 77", "nothing has this")
_TOGETHER: Final[dict[type[Model], tuple[str, ...]]] = {
    Request: (
        "status__exact=failed&tool={rare}",
        "status__exact=lost&endpoint=staff",
        "endpoint=partners&tool={common}",
        "status__exact=failed&q=caller+77",
        "tool={rare}&q=nothing",
    ),
    InFlightRequest: ("status=queued&tool={rare}", "endpoint=partners&tool={common}"),
    CancelledRequest: ("cancel_cause__exact=admin&tool={rare}", "stage__exact=3&cancel_cause__exact=deadline"),
    Cancellation: (
        "from={day}&to={day}",
        "actor=root",
        "actor=nobody",
        "tool={rare}&cause__exact=admin",
        "cause__exact=admin&q=waited",
        "outcome__exact=denied&stage__exact=3",
    ),
}


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    address: str


def all_pages(site: Site, user: Any, talkative: UUID) -> Iterator[Page]:
    """Yield all pages. Their names do not depend on the number of rows."""
    yield Page("index", reverse("admin:index"))
    yield Page("index of the app", reverse("admin:app_list", args=("mcp_app",)))
    for model in _LISTS:
        yield from _list(site, user, model)
    yield from _live()
    yield from _activity()
    yield from _tools()
    yield from _requests(talkative)
    yield from _single()


def _list(site: Site, user: Any, model: type[Model]) -> Iterator[Page]:
    plural = str(model._meta.verbose_name_plural)
    address = reverse(f"admin:mcp_app_{model._meta.model_name}_changelist")
    request = RequestFactory().get(address)
    request.user = user
    listed = admin.site.get_model_admin(model).get_changelist_instance(request)

    def page(name: str, query: str) -> Page:
        return Page(f"{plural}: {name}", f"{address}{query}")

    yield page("all", "")
    for spec in listed.filter_specs:
        choices = [choice for choice in spec.choices(listed) if choice.get("query_string") not in (None, "?")]
        for choice in choices if len(choices) <= _CHOICES else (choices[0], choices[-1]):
            yield page(f"{spec.title} {choice['display']}", choice["query_string"])
    last = listed.paginator.num_pages
    for number, column in enumerate(listed.list_display):
        if column in (listed.sortable_by or ()):
            for order in (number, -number):
                yield page(f"by {column}{'' if order > 0 else ', descending'}", f"?{ORDER_VAR}={order}")
                yield page(
                    f"by {column}{'' if order > 0 else ', descending'}, last page",
                    f"?{ORDER_VAR}={order}&{PAGE_VAR}={last}",
                )
    yield page("last page", f"?{PAGE_VAR}={last}")
    for words in (*_WORDS, str(UUID(int=1))) if listed.search_fields else ():
        yield page(f"search {words}", f"?{urlencode({SEARCH_VAR: words})}")
    names = {
        "common": _tool(common=True),
        "rare": _tool(common=False),
        "day": f"{site.newest - timedelta(days=9):%Y-%m-%d}",
    }
    for query in _TOGETHER.get(model, ()):
        yield page(query.format(common="common", rare="rare", day="day"), "?" + query.format(**names))


def _live() -> Iterator[Page]:
    for model in (InFlightRequest, Session, ListenStream):
        name = model._meta.model_name
        rows = model.objects.filter(finished_at=None) if model is InFlightRequest else model.objects.all()
        ids = ",".join(str(pk) for pk in rows.values_list("pk", flat=True)[20:70])
        yield Page(f"{model._meta.verbose_name_plural}: live", reverse(f"admin:mcp_app_{name}_live") + f"?shown={ids}")


def _activity() -> Iterator[Page]:
    for period in PERIODS:
        for name, tool in (("all", None), ("common", _tool(common=True)), ("rare", _tool(common=False))):
            query = urlencode({"period": period.value} | ({} if tool is None else {"tool": tool}))
            for part in ("changelist", "statistics"):
                yield Page(
                    f"activity {part} {period.value} {name}", reverse(f"admin:mcp_app_tally_{part}") + f"?{query}"
                )
    yield Page("activity: live", reverse("admin:mcp_app_tally_live"))


def _tools() -> Iterator[Page]:
    for name, tool in (("common", _tool(common=True)), ("rare", _tool(common=False))):
        for part in ("change", "try", "now", "history"):
            yield Page(f"tool: {part} {name}", reverse(f"admin:mcp_app_tool_{part}", args=(tool,)))


def _requests(talkative: UUID) -> Iterator[Page]:
    newest = Request.objects.order_by("-submitted_at").values_list("pk", flat=True)
    found = {
        "talkative": talkative,
        "running": newest.filter(status=Status.RUNNING)[0],
        "queued": newest.filter(status=Status.QUEUED)[0],
        "cancelled": newest.filter(status=Status.CANCELLED)[0],
    }
    for name, pk in found.items():
        for part in ("change", "state"):
            yield Page(f"request: {part} {name}", reverse(f"admin:mcp_app_request_{part}", args=(pk,)))
    for kind in ("caller", "tool"):
        address = reverse("admin:mcp_app_request_cancel_all", args=(found["running"], kind))
        yield Page(f"request: cancel all of its {kind}", address)
    yield Page("request: older lines", reverse("admin:mcp_app_request_change", args=(talkative,)) + "?before=2000")


def _single() -> Iterator[Page]:
    for model in (Cancellation, Session, ListenStream, Token):
        name = model._meta.model_name
        row = model._default_manager.first()
        assert row is not None
        yield Page(f"{model._meta.verbose_name}", reverse(f"admin:mcp_app_{name}_change", args=(row.pk,)))
        if model in (Session, ListenStream):
            yield Page(f"{model._meta.verbose_name}: close", reverse(f"admin:mcp_app_{name}_close", args=(row.pk,)))
    yield Page("token: add", reverse("admin:mcp_app_token_add"))


def _tool(*, common: bool) -> str:
    """Return the name of the tool that is called most, or least."""
    tools = Tool.objects.order_by("name" if common else "-name").values_list("pk", flat=True)
    return str(tools[0])
