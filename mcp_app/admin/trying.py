"""Trying a tool from its page in the admin: a form made of its schema, and the real call that comes of it.

Owns who may, and how the page is filled in; `tool_calls` makes the call, and the page of its request does the rest:
progress, cancelling, the result. Refuses to call anything but on a POST.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import admin, messages
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
from mcp_app.admin import tool_calls, tool_words, trying_once
from mcp_app.admin.argument_form import ArgumentsForm, CallForm, JSONForm
from mcp_app.admin.argument_tree import NoFieldsError
from mcp_app.admin.cancelling import actor
from mcp_app.admin.request_columns import isolated
from mcp_app.admin.request_lists import CANCEL, VIEW, page_url
from mcp_app.admin.tool_calls import Asking
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import catalogue
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.conf import settings
from mcp_app.lifecycle.inert import inert
from mcp_app.models import Request, Tool
from mcp_app.states import Status
from mcp_app.telling.formatting import duration

logger = logging.getLogger(__name__)

CALL: Final = "mcp_app.call_tool"
SHOW: Final = "_show"
"""Of a button that calls nothing: how the arguments are to be filled in from now on."""
MODE: Final = "_mode"
"""How they were filled in."""
JSON: Final = "json"
FIELDS: Final = "fields"
_NOT_SHOWN_TO: Final = "This page is not the one that was shown to you: nothing was called. Press the button again."
_SAME: Final = "This is the call that the page has made before. To call the tool again, load its page again."
_NO_FIELDS: Final = "No form could show what its schema takes; fill in its arguments as JSON."
_NOT_SHOWN: Final = "The fields cannot show all of these arguments, so they stay JSON."


class EndpointForm(forms.Form):
    """Where the tool is called, of the endpoints at which the user may call it."""

    endpoint = forms.ChoiceField(help_text="Of those that offer it to you. Limits for one caller count for each.")

    def __init__(self, callers: Mapping[str, Principal], data: Any = None) -> None:
        super().__init__(data)
        self.fields["endpoint"].choices = [(name, inert(name)) for name in callers]  # type: ignore[attr-defined]  # a ChoiceField

    @property
    def is_needed(self) -> bool:
        return len(self.fields["endpoint"].choices) > 1  # type: ignore[attr-defined]  # a ChoiceField


@dataclass(frozen=True)
class Trial:
    """A tool, and who may call it: the user, by endpoint."""

    row: Tool
    tool: OfferedTool
    callers: Mapping[str, Principal]


class TryingAdmin(admin.ModelAdmin):
    """The part of the tools' admin that calls them."""

    change_form_template = "admin/mcp_app/tool/change_form.html"

    def get_urls(self) -> list[URLPattern]:
        # Its row is to be committed before its message goes out, whatever the site does with its views.
        outside = transaction.non_atomic_requests(using=settings.DATABASE)
        # What a tool is given is payload, also for who reads Django's reports of errors.
        view = outside(sensitive_post_parameters()(self.admin_site.admin_view(self.try_view)))
        return [path("<path:object_id>/try/", view, name="mcp_app_tool_try"), *super().get_urls()]

    def has_call_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and request.user.has_perm(CALL)

    def has_watch_permission(self, request: HttpRequest) -> bool:
        """Whether this user may see the request that comes of a call, on this site of the admin."""
        return request.user.has_perm(VIEW) and self.admin_site.is_registered(Request)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        """With the way to the page that calls the tool, where this user may."""
        row: Tool | None = kwargs.get("obj")
        if row is not None and self.has_call_permission(request) and tool_calls.callers(_user(request), row.pk):
            context["try_url"] = self._try_url(row)
        return super().render_change_form(request, context, *args, **kwargs)

    def try_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The form; on POST the call, and then the page of its request."""
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
        """Raises PermissionDenied for who may not call this tool, or any; Http404."""
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
        """The call that this page makes, or has made; None where there is none, which the form then says why."""
        named = request.POST.get(trying_once.PAGE, "")
        called = trying_once.request_id(named, request.user.pk, trial.row.pk, caller.endpoint, form.arguments)
        if called is None:
            form.add_error(None, _NOT_SHOWN_TO)
            return None
        same = Request.objects.filter(pk=called).only("pk")
        if (before := same.first()) is None:
            if (row := _call(request, trial.tool, caller, form, called)) is not None:
                return self._called(request, trial, row)
            before = same.exclude(status=Status.FAILED).first()  # the same page was quicker, and its user may no more
        return None if before is None else self._called_before(request, trial, before)

    def _called(self, request: HttpRequest, trial: Trial, row: Request) -> HttpResponse:
        try:
            self.log_change(request, trial.row, f"Tried: request {row.pk}.")
        except DatabaseError:  # the call is made all the same: to fail now would have it made again
            logger.exception("the history of %s lacks request %s", trial.row.pk, row.pk)
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
            "page": (trying_once.PAGE, trying_once.page(request.user.pk, trial.row.pk)),
            "description": isolated(inert(trial.tool.description)),
            "refused": tool_calls.why_not(trial.tool),
            "stopping": tool_words.stopping(trial.tool),
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
    """The request of the call; None where there is none, which the form then says why."""
    language = languages.preferred(request.headers.get(languages.HEADER, ""))
    asking = Asking(request_id, language, actor(request).address)
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
    """What was filled in so far, shown in the other way; as it is where it cannot be read, or not be shown so."""
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
    return f"The call has begun, as request {request_id}. To watch it takes the permission to see requests."


def _user(request: HttpRequest) -> AbstractBaseUser:
    assert isinstance(request.user, AbstractBaseUser), "the admin lets in nobody else"
    return request.user
