"""The admin's pages of tools: what the code declares, and what administrators override.

They check permissions and log changes. Every change goes through `catalogue.tool_rows`, so that subscribed clients are
notified. Tools are added by code only, and a row can be deleted only if its code is gone.
"""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import ngettext

from mcp_app.admin.requests.request_columns import text_column
from mcp_app.admin.tools import tool_statistics, tool_texts
from mcp_app.admin.tools.tool_form import ToolForm
from mcp_app.admin.tools.try_tool import TryingAdmin
from mcp_app.catalogue import catalogue, tool_rows
from mcp_app.models import Tool
from mcp_app.presentation.formatting import NOTHING, as_json, moment
from mcp_app.safe_text import safe_text

TITLE_CHARS = 60
LOGGED_CHARS = 60
READ_ONLY = (
    "shown_name",
    "state",
    "work",
    "code_description",
    "stopping",
    "shown_location",
    "parameters",
    "use",
    "added",
    "changed",
)


@admin.register(Tool)
class ToolAdmin(TryingAdmin):
    form = ToolForm
    list_display = (
        "shown_name",
        "enabled",
        "code",
        "shown_title",
        "policy",
        "queue_now",
        "time_limit_now",
        "shown_location",
    )
    list_filter = ("enabled", "registered")
    show_facets = admin.ShowFacets.NEVER
    search_fields = ("name", "title", "location")
    sortable_by = ("shown_name", "enabled")
    actions = ("enable", "disable")
    readonly_fields = READ_ONLY
    fieldsets = (
        (None, {"fields": ("shown_name", "state", "enabled", "work")}),
        ("What clients see", {"fields": ("title", "description", "code_description")}),
        ("How it runs", {"fields": ("queue", "time_limit")}),
        ("How it is stopped", {"fields": ("stopping", "cancel_policy", "cooperative_grace", "hard_grace")}),
        ("Its code", {"fields": ("shown_location", "parameters", "added", "changed")}),
    )

    shown_name = text_column("name", "name", ordering="name")

    class Media:
        css = {"all": ("mcp_app/admin.css", "mcp_app/audit.css", "mcp_app/dashboard.css")}
        js = ("mcp_app/live.js",)

    def get_urls(self) -> list[URLPattern]:
        now = self.admin_site.admin_view(self.now_view)
        return [path("<path:object_id>/now/", now, name="mcp_app_tool_now"), *super().get_urls()]

    def now_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return only the part with the tool's calls in flight."""
        if not self.has_view_permission(request) or not request.user.has_perm(tool_statistics.VIEW):
            raise PermissionDenied
        context = tool_statistics.now(self.admin_site, unquote(object_id))
        return TemplateResponse(request, "admin/mcp_app/tool/now.html", context)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": "Tools", **(extra_context or {})})

    def get_fieldsets(self, request: HttpRequest, obj: Tool | None = None) -> Any:
        """Add the statistics, if the user may see them."""
        fieldsets = [*super().get_fieldsets(request, obj)]
        if request.user.has_perm(tool_statistics.VIEW):
            fieldsets.insert(1, ("How it is used", {"fields": ("use",)}))
        return fieldsets

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Tool | None = None) -> bool:
        """Allow users who may change a tool to delete a row whose code is gone."""
        return obj is not None and not obj.registered and self.has_change_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Tool, form: Any, change: bool) -> None:
        """Save only the changed fields, because other users or the code may have changed the others in the meantime."""
        tool_rows.change([obj.pk], **{name: form.cleaned_data[name] for name in form.changed_data})
        tool = catalogue.effective(obj)
        if tool is not None and "cancel_policy" in form.changed_data and (risk := tool_texts.risk(tool)):
            self.message_user(request, risk, messages.WARNING)

    def delete_model(self, request: HttpRequest, obj: Tool) -> None:
        tool_rows.forget(obj.pk)

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        """Return the history message, with each value before and after."""
        changes = [_change(name, form.initial.get(name), form.cleaned_data[name]) for name in form.changed_data]
        return [{"changed": {"fields": changes}}] if changes else []

    @admin.action(permissions=["change"], description="Enable selected tools")
    def enable(self, request: HttpRequest, queryset: QuerySet[Tool]) -> None:
        self._set_enabled(request, queryset, True)

    @admin.action(permissions=["change"], description="Disable selected tools")
    def disable(self, request: HttpRequest, queryset: QuerySet[Tool]) -> None:
        self._set_enabled(request, queryset, False)

    def _set_enabled(self, request: HttpRequest, queryset: QuerySet[Tool], enabled: bool) -> None:
        tools = {tool.pk: tool for tool in queryset}
        changed = tool_rows.change(tools.keys(), enabled=enabled)
        for name in changed:
            message = [{"changed": {"fields": [_change("enabled", not enabled, enabled)]}}]
            self.log_change(request, tools[name], message)
        state = "enabled" if enabled else "disabled"
        notice = ngettext("%d tool %s.", "%d tools %s.", len(changed)) % (len(changed), state)
        if (rest := len(tools) - len(changed)) > 0:
            notice += f" {rest} {'was' if rest == 1 else 'were'} {state} before."
        self.message_user(request, notice, messages.SUCCESS if changed else messages.INFO)

    @admin.display(description="title")
    def shown_title(self, row: Tool) -> str:
        tool = catalogue.effective(row)
        return safe_text((tool.title if tool else row.title) or NOTHING, TITLE_CHARS)

    @admin.display(description="stopped by")
    def policy(self, row: Tool) -> str | SafeString:
        tool = catalogue.effective(row)
        if tool is None:
            return NOTHING
        return format_html(
            '<span title="{}">{}{}</span>',
            tool_texts.stopping(tool),
            tool.cancel_policy.label,
            " (override)" if row.cancel_policy else "",
        )

    @admin.display(description="queue")
    def queue_now(self, row: Tool) -> str:
        tool = catalogue.effective(row)
        return tool.queue if tool else NOTHING

    @admin.display(description="time limit")
    def time_limit_now(self, row: Tool) -> str:
        tool = catalogue.effective(row)
        return f"{tool.time_limit:g} s" if tool else NOTHING

    @admin.display(description="location in the code")
    def shown_location(self, row: Tool) -> str:
        return safe_text(row.location)

    @admin.display(description="code")
    def code(self, row: Tool) -> str:
        return "registered" if row.registered else "code gone"

    @admin.display(description="state")
    def state(self, row: Tool) -> str:
        if not row.registered:
            return (
                "Not offered: its code no longer exists. The overrides are kept in case it returns; delete the row "
                "to remove them (requests and cancellations stay)."
            )
        return "Offered to clients." if row.enabled else "Not offered: it is disabled."

    @admin.display(description="its work")
    def work(self, row: Tool) -> SafeString:
        """Return links to other pages, filtered by this tool. Those pages check their own permissions."""
        query = urlencode({"tool": row.name})
        return format_html(
            '<a href="{}?{}">Its requests</a> · <a href="{}?{}">Its cancellations</a>',
            reverse("admin:mcp_app_request_changelist", current_app=self.admin_site.name),
            query,
            reverse("admin:mcp_app_cancellation_changelist", current_app=self.admin_site.name),
            query,
        )

    @admin.display(description="calls")
    def use(self, row: Tool) -> SafeString:
        return tool_statistics.shown(self.admin_site, row.name)

    @admin.display(description="the code's description")
    def code_description(self, row: Tool) -> str | SafeString:
        tool = catalogue.effective(Tool(name=row.name))
        return format_html('<bdi class="mcp-text">{}</bdi>', safe_text(tool.description)) if tool else NOTHING

    @admin.display(description="what a cancellation does")
    def stopping(self, row: Tool) -> str | SafeString:
        tool = catalogue.effective(row)
        if tool is None:
            return NOTHING
        return format_html(
            "<p>{}</p>{}",
            tool_texts.stopping(tool),
            format_html('<p class="mcp-warning">{}</p>', risk) if (risk := tool_texts.risk(tool)) else "",
        )

    @admin.display(description="registered at")
    def added(self, row: Tool) -> str:
        return moment(row.registered_at)

    @admin.display(description="updated at")
    def changed(self, row: Tool) -> str:
        return moment(row.updated_at)

    @admin.display(description="parameters")
    def parameters(self, row: Tool) -> str | SafeString:
        tool = catalogue.effective(row)
        if tool is None:
            return NOTHING
        return format_html('<pre class="mcp-payload">{}</pre>', as_json(tool.registered.signature.input_schema))


def _change(field: str, before: Any, after: Any) -> str:
    return f"{field.replace('_', ' ')} ({_logged(before)} → {_logged(after)})"


def _logged(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "as in the code" if value in (None, "") else safe_text(value, LOGGED_CHARS).replace("\n", " ")
