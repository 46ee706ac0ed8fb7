"""The admin's pages of bearer tokens: make a token, show it once, and revoke it permanently.

They check permissions and log actions; `auth.tokens` does the work. A token is only in the response to the form that
made it, and in no session or message, so it cannot be shown twice. Revoked tokens stay listed.
"""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.cache import add_never_cache_headers
from django.utils.safestring import SafeString

from mcp_app.admin.lists.formatting import badge
from mcp_app.admin.lists.read_only import ReadOnlyAdmin
from mcp_app.admin.requests.request_columns import NAME_CHARS, text
from mcp_app.admin.requests.request_lists import newest
from mcp_app.admin.tokens.form import TokenForm
from mcp_app.auth import tokens
from mcp_app.auth.tokens import IssuedToken
from mcp_app.models import Token
from mcp_app.presentation.formatting import moment
from mcp_app.safe_text import safe_text

ADD = "mcp_app.add_token"
REVOKE = "mcp_app.change_token"
_ISSUED = "_mcp_app_issued"
"""Of the request: nothing else is given to both methods that make a token, and is neither stored nor logged."""
_SHOWN = (
    *("prefix", "state", "whose", "called", "limited_to", "made", "made_by"),
    *("expires", "used", "revoked", "by_whom"),
)


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    list_display = ("prefix", "state", "whose", "called", "limited_to", "made", "made_by", "expires", "used")
    list_per_page = 50
    list_max_show_all = 50
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ("made", "expires", "used")
    search_fields = ("prefix", "name", "user_label", "created_by")
    search_help_text = (
        "The prefix, purpose or user of a token, among the newest 10,000. Do not search for a whole token."
    )
    actions = ("revoke_selected",)
    change_form_template = "admin/mcp_app/token/page.html"
    add_form_template = "admin/change_form.html"

    class Media:
        css = {"all": ("mcp_app/admin.css",)}

    def get_urls(self) -> list[URLPattern]:
        revoke = self.admin_site.admin_view(self.revoke_view)
        return [path("<int:token_id>/revoke/", revoke, name="mcp_app_token_revoke"), *super().get_urls()]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(ADD)

    def has_view_permission(self, request: HttpRequest, obj: Token | None = None) -> bool:
        return request.user.has_perm("mcp_app.view_token") or self.has_revoke_permission(request)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(REVOKE)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        among = newest(queryset, "created_at") if search_term else queryset
        return super().get_search_results(request, among, search_term)

    def get_fieldsets(self, request: HttpRequest, obj: Token | None = None) -> Any:
        if obj is not None:
            return [(None, {"fields": _SHOWN})]
        others = ("username",) if request.user.is_superuser else ()
        return [(None, {"fields": ("name", *others, "scopes", "days")})]

    def get_readonly_fields(self, request: HttpRequest, obj: Token | None = None) -> Any:
        return () if obj is None else _SHOWN

    def get_form(self, request: HttpRequest, obj: Token | None = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None:
            assert isinstance(request.user, AbstractBaseUser), "other users cannot log in to the admin"
            kwargs["form"] = TokenForm.of(request.user)
        return super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Token, form: Any, change: bool) -> None:
        """Make the token. `obj` becomes its row, for the log. Only `response_add` gets the token itself."""
        made = form.cleaned_data
        issued = tokens.issue(
            form.user,
            made["name"],
            by=request.user.get_username(),
            scopes=made["scopes"],
            expires_at=made["expires_at"],
        )
        obj.__dict__.update(issued.row.__dict__)
        setattr(request, _ISSUED, issued)

    def response_add(self, request: HttpRequest, obj: Token, post_url_continue: str | None = None) -> HttpResponse:
        """Return the only page that shows the token. A redirect would have to carry or store it."""
        issued: IssuedToken = getattr(request, _ISSUED)
        context = {
            **self.admin_site.each_context(request),
            "title": "Token made",
            "opts": self.opts,
            "media": self.media,
            "token": issued.text,
            "of": safe_text(f"{issued.row.name}, of {issued.row.user_label}"),
            "may_view": self.has_view_permission(request),
        }
        response = TemplateResponse(request, "admin/mcp_app/token/made.html", context)
        add_never_cache_headers(response)
        return response

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        """Show one button only, because a token is made and not saved."""
        obj: Token | None = kwargs.get("obj")
        context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        context["may_revoke"] = obj is not None and obj.revoked_at is None and self.has_revoke_permission(request)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.action(description="Revoke selected tokens", permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[Token]) -> None:
        self._revoke(request, list(queryset))

    def revoke_view(self, request: HttpRequest, token_id: int) -> HttpResponse:
        """Revoke a token, and redirect to its page."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_revoke_permission(request):
            raise PermissionDenied
        row = Token.objects.filter(pk=token_id).first()
        if row is None:
            raise Http404("There is no such token.")
        self._revoke(request, [row])
        page = reverse("admin:mcp_app_token_change", args=(row.pk,), current_app=self.admin_site.name)
        return HttpResponseRedirect(page)

    def _revoke(self, request: HttpRequest, rows: list[Token]) -> None:
        by = request.user.get_username()
        revoked = [row for row in rows if tokens.revoke([row.prefix], by=by)]
        for row in revoked:
            self.log_change(request, row, "Revoked.")
        message = f"Revoked: {len(revoked)}."
        if rest := len(rows) - len(revoked):
            message += f" Revoked before: {rest}."
        self.message_user(request, message, messages.SUCCESS if revoked else messages.INFO)

    @admin.display(description="state")
    def state(self, row: Token) -> SafeString:
        if row.revoked_at is not None:
            return badge("cancelled", "revoked")
        if row.expires_at is not None and row.expires_at <= datetime.now(UTC):
            return badge("cancelled", "expired")
        return badge("completed", "in force")

    @admin.display(description="user")
    def whose(self, row: Token) -> SafeString:
        return text(row.user_label, NAME_CHARS)

    @admin.display(description="for")
    def called(self, row: Token) -> SafeString:
        return text(row.name, NAME_CHARS)

    @admin.display(description="scopes")
    def limited_to(self, row: Token) -> SafeString:
        return text("not limited by scopes" if row.scopes is None else " ".join(map(str, row.scopes)), NAME_CHARS)

    @admin.display(description="made", ordering="created_at")
    def made(self, row: Token) -> str:
        return moment(row.created_at)

    @admin.display(description="made by")
    def made_by(self, row: Token) -> SafeString:
        return text(row.created_by, NAME_CHARS)

    @admin.display(description="expires", ordering="expires_at")
    def expires(self, row: Token) -> str:
        return moment(row.expires_at)

    @admin.display(description="last used", ordering="last_used_at")
    def used(self, row: Token) -> str:
        return moment(row.last_used_at)

    @admin.display(description="revoked")
    def revoked(self, row: Token) -> str:
        return moment(row.revoked_at)

    @admin.display(description="revoked by")
    def by_whom(self, row: Token) -> SafeString:
        return text(row.revoked_by, NAME_CHARS)
