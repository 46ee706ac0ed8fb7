"""Try a tool from its page in the admin: a form made from its schema, and a real call.

This module checks permissions and fills in the page. `tool_calls` makes the call, and the request's page shows its
progress and result and can cancel it. Only a POST calls a tool.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.admin.helpers import AdminForm
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.db import Error as DatabaseError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.debug import sensitive_post_parameters

from mcp_app import languages
from mcp_app.admin.arguments.form import ArgumentsForm, CallForm, JSONForm
from mcp_app.admin.arguments.tree import NoFieldsError
from mcp_app.admin.lists.lookups import OfferedLookupsAdmin
from mcp_app.admin.requests.cancelling import actor
from mcp_app.admin.requests.request_columns import isolated
from mcp_app.admin.requests.request_lists import CANCEL, VIEW, page_url
from mcp_app.admin.tools import tool_calls, tool_texts, try_once
from mcp_app.admin.tools.tool_calls import StaffCall
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import catalogue
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.conf import settings
from mcp_app.models import Request, Tool
from mcp_app.presentation.formatting import duration
from mcp_app.safe_text import safe_text
from mcp_app.states import Status

logger = logging.getLogger(__name__)

CALL: Final = "mcp_app.call_tool"
SHOW: Final = "_show"
"""The name of the button that switches between the two forms. It calls nothing."""
MODE: Final = "_mode"
"""The form that was used."""
JSON: Final = "json"
FIELDS: Final = "fields"
_NOT_SHOWN_TO: Final = (
    "The submitted page is not the one that was shown to you, so nothing was called. Press the button again."
)
_SAME: Final = "That form had already made this call. To call the tool again, open its “Try it” page again."
_NO_FIELDS: Final = "Its schema cannot be shown as a form; fill in its arguments as JSON."
_NOT_SHOWN: Final = "The form cannot show all of these arguments, so they stay JSON."


class EndpointForm(forms.Form):
    """Selects one of the endpoints at which the user may call the tool."""

    endpoint = forms.ChoiceField(
        help_text="The endpoints that offer it to you. Limits per caller apply to each endpoint separately."
    )

    def __init__(self, callers: Mapping[str, Principal], data: Any = None) -> None:
        super().__init__(data)
        self.fields["endpoint"].choices = [(name, safe_text(name)) for name in callers]  # type: ignore[attr-defined]  # a ChoiceField

    @property
    def is_needed(self) -> bool:
        return len(self.fields["endpoint"].choices) > 1  # type: ignore[attr-defined]  # a ChoiceField


@dataclass(frozen=True)
class Trial:
    """A tool, and the user as a caller at each endpoint."""

    row: Tool
    tool: OfferedTool
    callers: Mapping[str, Principal]


class TryingAdmin(OfferedLookupsAdmin):
    """The part of the tools' admin that calls them."""

    change_form_template = "admin/mcp_app/tool/change_form.html"

    def get_urls(self) -> list[URLPattern]:
        # The row must be committed before its message is sent, even with `ATOMIC_REQUESTS`.
        outside = transaction.non_atomic_requests(using=settings.DATABASE)
        # Arguments are payload, which must not appear in Django's error reports either.
        view = outside(sensitive_post_parameters()(self.admin_site.admin_view(self.try_view)))
        return [path("<path:object_id>/try/", view, name="mcp_app_tool_try"), *super().get_urls()]

    def has_call_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and request.user.has_perm(CALL)

    def has_watch_permission(self, request: HttpRequest) -> bool:
        """Return whether this user may see the request of the call on this admin site."""
        return request.user.has_perm(VIEW) and self.admin_site.is_registered(Request)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        """Add the link to the page that calls the tool, if this user may call it."""
        row: Tool | None = kwargs.get("obj")
        if row is not None and self.has_call_permission(request) and tool_calls.callers(_user(request), row.pk):
            context["try_url"] = self._try_url(row)
        return super().render_change_form(request, context, *args, **kwargs)

    def try_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the form. On POST, make the call and redirect to the page of its request."""
        trial = self._trial(request, unquote(object_id))
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "POST"])
        request.current_app = self.admin_site.name
        endpoint = EndpointForm(trial.callers, request.POST if request.method == "POST" else None)
        if request.method != "POST":
            return self._page(request, trial, endpoint, _form(trial.tool))
        form = _form(trial.tool, request.POST)
        if SHOW in request.POST:
            return self._page(request, trial, endpoint, _otherwise(request, trial.tool, form))
        if not form.is_valid() or (endpoint.is_needed and not endpoint.is_valid()):
            return self._page(request, trial, endpoint, form)
        caller = trial.callers[endpoint.cleaned_data["endpoint"] if endpoint.is_needed else next(iter(trial.callers))]
        return self._call_once(request, trial, caller, form) or self._page(request, trial, endpoint, form)

    def _trial(self, request: HttpRequest, name: str) -> Trial:
        """Return the tool and its caller. Raises Http404, and PermissionDenied if the user may not call the tool."""
        if not self.has_call_permission(request):
            raise PermissionDenied
        if (row := Tool.objects.filter(pk=name).first()) is None:
            raise Http404("There is no such tool.")
        callers = {each.endpoint: each for each in tool_calls.callers(_user(request), name)}
        tool = catalogue.effective(row)
        if not callers or tool is None:
            raise PermissionDenied
        return Trial(row, tool, callers)

    def _call_once(self, request: HttpRequest, trial: Trial, caller: Principal, form: CallForm) -> HttpResponse | None:
        """Return the call that this page makes or has made, or `None` after adding the reason to the form."""
        named = request.POST.get(try_once.PAGE, "")
        called = try_once.request_id(named, request.user.pk, trial.row.pk, caller.endpoint, form.arguments)
        if called is None:
            form.add_error(None, _NOT_SHOWN_TO)
            return None
        same = Request.objects.filter(pk=called).only("pk")
        if (before := same.first()) is None:
            if (row := _call(request, trial.tool, caller, form, called)) is not None:
                return self._called(request, trial, row)
            before = same.exclude(status=Status.FAILED).first()  # another POST of this page was quicker
        return None if before is None else self._called_before(request, trial, before)

    def _called(self, request: HttpRequest, trial: Trial, row: Request) -> HttpResponse:
        try:
            self.log_change(request, trial.row, f"Tried: request {row.pk}.")
        except DatabaseError:  # the call has been made; an error now would make the user call again
            logger.exception("request %s is missing from the admin history of the tool %s", row.pk, trial.row.pk)
        if self.has_watch_permission(request):
            return HttpResponseRedirect(page_url(self.admin_site, row.pk))
        messages.success(request, _begun(row.pk))
        return HttpResponseRedirect(self._try_url(trial.row))

    def _called_before(self, request: HttpRequest, trial: Trial, row: Request) -> HttpResponse:
        if not self.has_watch_permission(request):
            messages.info(request, _begun(row.pk))
            return HttpResponseRedirect(self._try_url(trial.row))
        messages.info(request, _SAME)
        return HttpResponseRedirect(page_url(self.admin_site, row.pk))

    def _page(self, request: HttpRequest, trial: Trial, endpoint: EndpointForm, form: CallForm) -> HttpResponse:
        parts = [(part.name, {"fields": part.fields, "description": part.description}) for part in form.sections()]
        where = [(None, {"fields": ["endpoint"]})] if endpoint.is_needed else []
        context = {
            **self.admin_site.each_context(request),
            "title": f"Try {trial.tool.name}",
            "opts": self.opts,
            "original": trial.row,
            "media": self.media,
            "page": (try_once.PAGE, try_once.page(request.user.pk, trial.row.pk)),
            "description": isolated(safe_text(trial.tool.description)),
            "refused": tool_calls.why_not(trial.tool),
            "stopping": tool_texts.stopping(trial.tool),
            "time_limit": duration(trial.tool.time_limit),
            "user": request.user,
            "may_watch": self.has_watch_permission(request),
            "may_cancel": self.has_watch_permission(request) and request.user.has_perm(CANCEL),
            "form": form,
            "errors": form.errors or (endpoint.is_needed and endpoint.errors),
            "where": _fieldsets(endpoint, where),
            "arguments": _fieldsets(form, parts),
            "has_arguments": any(part.fields for part in form.sections()),
            "is_json": isinstance(form, JSONForm),
        }
        return TemplateResponse(request, "admin/mcp_app/try_tool.html", context)

    def _try_url(self, row: Tool) -> str:
        return reverse("admin:mcp_app_tool_try", args=(quote(row.pk),), current_app=self.admin_site.name)


def _call(
    request: HttpRequest, tool: OfferedTool, caller: Principal, form: CallForm, request_id: UUID
) -> Request | None:
    """Return the request of the call, or `None` after adding the reason to the form."""
    language = languages.preferred(request.headers.get(languages.HEADER, ""))
    asking = StaffCall(request_id, language, actor(request).address)
    try:
        return tool_calls.call(tool, caller, form.arguments, asking)
    except InvalidArguments as error:
        form.add_problems(error.problems)
    except tool_calls.NotCalledError as error:
        form.add_error(None, str(error))
    return None


def _form(tool: OfferedTool, data: Any = None) -> CallForm:
    if data is not None and data.get(MODE) == JSON:
        return JSONForm(data)
    try:
        return ArgumentsForm(tool.registered.signature.input_schema, data)
    except NoFieldsError:
        return JSONForm()


def _otherwise(request: HttpRequest, tool: OfferedTool, form: CallForm) -> CallForm:
    """Return the input in the other form, or the same form if the input cannot be read or shown there."""
    if not form.is_read():
        return form
    if request.POST[SHOW] == JSON:
        return JSONForm(arguments=form.arguments)
    try:
        fields = ArgumentsForm(tool.registered.signature.input_schema, arguments=form.arguments)
    except NoFieldsError:
        form.add_error(None, _NO_FIELDS)
        return form
    if fields.shows(form.arguments):
        return fields
    form.add_error(None, _NOT_SHOWN)
    return form


def _fieldsets(form: Any, parts: Any) -> AdminForm:
    return AdminForm(form, parts, {})


def _begun(request_id: UUID) -> str:
    return f"The call has begun, as request {request_id}. You need the permission to view requests to watch it."


def _user(request: HttpRequest) -> AbstractBaseUser:
    assert isinstance(request.user, AbstractBaseUser), "other users cannot log in to the admin"
    return request.user
