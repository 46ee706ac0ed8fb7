"""The door for pages that tools send their users to (`ctx.elicit_page`): `from mcp_app.visits import Visit, visit`.

    @visit
    def sign(request, visit):
        if request.method == "POST":
            visit.done({"signed": True})
        …

Lets in whoever called the tool, logged in to this site as the same user, and nobody else: an address that was passed
on, altered, or whose call is over opens nothing. Source: 2026-07-28 client/elicitation "Phishing".
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

from mcp_app.execution.asking import PAGE_PARAMETER
from mcp_app.lifecycle import visits
from mcp_app.models import Request

NOT_YOURS = "This page belongs to a call of somebody else, or to one that does not ask for it any more."


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit that was verified: of which request, for which of its questions."""

    request: Request
    key: str

    @property
    def message(self) -> str:
        """What the tool told its user."""
        return str(self.request.original("questions")[self.key]["params"]["message"])

    def done(self, value: Any = None) -> bool:
        """Tell the tool that the user is done, with a JSON value; False when nobody waits for it any more.

        The value stays in the database, but for what redaction leaves out: keep credentials elsewhere, and hand over
        what finds them.
        """
        return visits.finish(self.request.pk, self.key, value)


def visit(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Decorate a view that takes the `Visit` after its request. Others are sent to log in, or refused with 403."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        found = visits.find(request.GET.get(PAGE_PARAMETER, ""), str(request.user.pk))
        if found is None:
            raise PermissionDenied(NOT_YOURS)
        return view(request, Visit(*found), *args, **kwargs)

    return guarded
