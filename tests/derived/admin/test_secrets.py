"""A ModelAdmin's list and rows do not disclose passwords, nor columns that the list does not show."""

from typing import Any

import pytest
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db import models

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
    class RelatedPasswordAdmin(ModelAdmin):  # type: ignore[type-arg]
        list_display = ("title", "owner__password")
        list_filter = ("owner__password",)

    publish(Book, RelatedPasswordAdmin)
    assert set(call("list_books", staff.root)["items"][0]) == {"pk", "title"}
    assert "owner__password" not in schemas("list_books", staff.root)[0]["properties"]
