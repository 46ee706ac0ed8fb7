"""Public API for the pages that a tool sends its user to (`ctx.elicit_page`).

Example::

    from mcp_app.visits import visit

    @visit
    def sign(request, visit):
        if request.method == "POST":
            visit.done({"signed": True})
        return render(request, "sign.html", {"message": visit.message})

The view runs only for the user who called the tool, logged in to this site. An address that was
passed on or altered, or whose call has ended, gets a 403.
Source: 2026-07-28 client/elicitation "Phishing".
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

from mcp_app.execution.tool.context import PAGE_PARAMETER
from mcp_app.lifecycle.input import visits
from mcp_app.models import Request

NOT_YOURS = "This page belongs to another user's call, or to one that no longer needs it."


@dataclass(frozen=True, slots=True)
class Visit:
    """A verified visit of a page."""

    request: Request
    """The row of the tool's call, not the `HttpRequest`."""
    key: str
    """The key of the question that the page answers."""

    @property
    def message(self) -> str:
        """The message that the tool showed its user."""
        return str(self.request.unredacted_value("questions")[self.key]["params"]["message"])

    def done(self, value: Any = None) -> bool:
        """Send the tool `value`, a JSON value, as the `content` of its answer.

        Return `False` if the question no longer waits for an answer. Another call replaces the
        value as long as the question waits.

        The value is stored in the database, except for what redaction removes. Do not pass
        credentials: store them elsewhere and pass their key.
        """
        return visits.finish(self.request.pk, self.key, value)


def visit(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Decorate a view, which receives a `Visit` as its second argument.

    The view must be a plain function, not `async`. Anonymous users are redirected to the login
    page. Raises `PermissionDenied` (403) unless the address belongs to a call of the logged-in user
    that is still waiting.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        found = visits.find(request.GET.get(PAGE_PARAMETER, ""), str(request.user.pk))
        if found is None:
            raise PermissionDenied(NOT_YOURS)
        return view(request, Visit(*found), *args, **kwargs)

    return guarded
