"""An admin site whose ModelAdmins use the hooks that tools must respect."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import AdminSite, ModelAdmin, SimpleListFilter
from django.core.exceptions import PermissionDenied
from django.http import FileResponse, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from tests.derived.shop.models import Author, Book, Cover, Loan, Review, Tag


class CheapFilter(SimpleListFilter):
    title = "costs"
    parameter_name = "costs"

    def lookups(self, request: Any, model_admin: Any) -> Any:
        return [("little", "Little"), ("much", "Much")]

    def queryset(self, request: Any, queryset: Any) -> Any:
        cheap = {"price__lt": 10}
        if self.value() is None:
            return queryset
        return queryset.filter(**cheap) if self.value() == "little" else queryset.exclude(**cheap)


class BookAdmin(ModelAdmin):
    list_display = ("title", "author", "price", "is_long")
    list_filter = ("status", "author", "sold_at", CheapFilter)
    list_per_page = 2
    search_fields = ("title", "tags__word")
    fields = ("title", ("author", "tags"), "status", "price", "published", "sold_at", "details", "secret", "is_long")
    readonly_fields = ("secret", "is_long")
    actions = ("mark_out", "archive", "export", "ask", "refuse", "download")

    @admin.display(boolean=True)
    def is_long(self, book: Book) -> bool:
        return book.pages > 100

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).exclude(title="unseen")

    def get_readonly_fields(self, request: Any, obj: Any = None) -> Any:
        return self.readonly_fields if request.user.is_superuser else (*self.readonly_fields, "price")

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        is_own = obj is None or obj.owner_id == request.user.pk or request.user.is_superuser
        return is_own and super().has_change_permission(request, obj)

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.owner = request.user
        obj.secret = f"saved by {request.user} for {','.join(form.changed_data)}"
        super().save_model(request, obj, form, change)
        self.message_user(request, "The shelf was informed.")

    @admin.action(description="Put selected %(verbose_name_plural)s into the shops", permissions=["change"])
    def mark_out(self, request: Any, queryset: Any) -> None:
        count = queryset.update(status=Book.Status.OUT)
        self.message_user(request, f"{count} out", messages.SUCCESS)

    @admin.action(permissions=["archive"])
    def archive(self, request: Any, queryset: Any) -> HttpResponseRedirect:
        queryset.update(secret=f"archived {request.POST['action']} {request.POST.getlist('_selected_action')}")
        return HttpResponseRedirect("/")

    def has_archive_permission(self, request: Any) -> bool:
        return bool(request.user.username == "ann")

    def export(self, request: Any, queryset: Any) -> HttpResponse:
        return HttpResponse("\n".join(queryset.values_list("title", flat=True)), content_type="text/csv")

    def ask(self, request: Any, queryset: Any) -> TemplateResponse:
        return TemplateResponse(request, "ask.html")

    def refuse(self, request: Any, queryset: Any) -> None:
        raise PermissionDenied

    def download(self, request: Any, queryset: Any) -> FileResponse:
        return FileResponse([b"x"])


def library() -> AdminSite:
    site = AdminSite("library")
    site.register(Book, BookAdmin)
    site.register([Author, Tag, Review, Loan, Cover])
    return site
