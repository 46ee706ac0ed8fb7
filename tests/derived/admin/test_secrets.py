"""A ModelAdmin's list and rows do not disclose passwords, nor columns that the list does not show."""

from typing import Any

import pytest
from django.contrib.admin import AdminSite, EmptyFieldListFilter, ModelAdmin, SimpleListFilter
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db import models

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.model_tools import admin_tools
from tests.derived.admin.conftest import Staff
from tests.derived.calling import call, schemas
from tests.derived.shop.models import Book


def publish(model: type[models.Model], model_admin: Any) -> None:
    site = AdminSite("secrets")
    site.register(model, model_admin)
    admin_tools(site, [model])


class ReadOnlyPasswordAdmin(UserAdmin):
    readonly_fields = ("password",)


@pytest.mark.parametrize("model_admin", [ModelAdmin, ReadOnlyPasswordAdmin])
def test_no_model_admin_shows_the_password_of_a_user(staff: Staff, model_admin: Any) -> None:
    publish(User, model_admin)
    shown = call("get_user", staff.root, pk=staff.ann.pk)
    assert shown["username"] == "ann"
    assert "password" not in shown


def test_a_list_neither_shows_nor_filters_nor_sorts_passwords(staff: Staff) -> None:
    class PasswordListAdmin(UserAdmin):
        list_display = ("username", "password")
        list_filter = ("password", "is_staff")

    publish(User, PasswordListAdmin)
    assert set(call("list_users", staff.root)["items"][0]) == {"pk", "username"}
    properties = schemas("list_users", staff.root)[0]["properties"]
    assert "password" not in properties
    assert properties["order_by"]["enum"] == ["username", "-username"]


def test_a_list_does_not_show_the_password_of_a_related_user(staff: Staff) -> None:
    class RelatedPasswordAdmin(ModelAdmin):
        list_display = ("title", "owner__password")
        list_filter = ("owner__password",)

    publish(Book, RelatedPasswordAdmin)
    assert set(call("list_books", staff.root)["items"][0]) == {"pk", "title"}
    assert "owner__password" not in schemas("list_books", staff.root)[0]["properties"]


def test_a_filter_for_empty_fields_does_not_compare_their_values(staff: Staff) -> None:
    class EmptyAdmin(ModelAdmin):
        list_filter = (("secret", EmptyFieldListFilter),)

    publish(Book, EmptyAdmin)
    assert "secret" not in schemas("list_books", staff.root)[0]["properties"]


@pytest.mark.parametrize("has_request", [True, False])
def test_the_model_admin_may_disallow_a_filter(staff: Staff, has_request: bool) -> None:
    class GuardedAdmin(ModelAdmin):
        list_filter = ("title", "status")

        def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
            return lookup != "title" and request.user.is_superuser

    class OldGuardedAdmin(ModelAdmin):
        list_filter = ("title", "status")

        def lookup_allowed(self, lookup: str, value: str) -> bool:
            return lookup != "title"

    publish(Book, GuardedAdmin if has_request else OldGuardedAdmin)
    assert call("list_books", staff.root, title="ann's").endswith("- title: You cannot use this argument.")
    assert len(call("list_books", staff.root, status="draft")["items"]) == 2


def test_a_list_is_not_sorted_by_columns_that_it_does_not_show(staff: Staff) -> None:
    class SortedAdmin(ModelAdmin):
        list_display = ("title",)
        sortable_by = ("title", "secret")

    publish(Book, SortedAdmin)
    assert schemas("list_books", staff.root)[0]["properties"]["order_by"]["enum"] == ["title", "-title"]


def test_a_filter_of_the_site_also_applies_without_a_value(staff: Staff) -> None:
    class OwnFilter(SimpleListFilter):
        title = "owner"
        parameter_name = "limit"  # an argument of the list, so that the filter itself is not published

        def lookups(self, request: Any, model_admin: Any) -> Any:
            return [("all", "All")]

        def queryset(self, request: Any, queryset: Any) -> Any:
            return queryset if self.value() == "all" else queryset.filter(owner=request.user)

    class EverybodyFilter(OwnFilter):
        parameter_name = "owners"

    class UnlistedFilter(OwnFilter):
        parameter_name = "unlisted"

        def lookups(self, request: Any, model_admin: Any) -> Any:
            return []

    class OwnAdmin(ModelAdmin):
        list_filter = (OwnFilter, UnlistedFilter)

    class EverybodyAdmin(ModelAdmin):
        list_filter = (EverybodyFilter, UnlistedFilter)

    publish(Book, OwnAdmin)
    assert [each["pk"] for each in call("list_books", staff.ann, limit=5)["items"]] == [staff.anns.pk]
    with isolated_registries():
        publish(Book, EverybodyAdmin)
        assert [each["pk"] for each in call("list_books", staff.ann)["items"]] == [staff.anns.pk]
        assert len(call("list_books", staff.ann, owners="all")["items"]) == 2
