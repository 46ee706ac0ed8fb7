"""Forms of ModelAdmins that depend on the user, or have fields that arguments cannot fill."""

from typing import Any

import pytest
from django.contrib.admin import AdminSite, ModelAdmin
from django.db import models

from mcp_app.catalogue.errors import InvalidDeclaration
from mcp_app.model_tools import admin_tools
from tests.derived.admin.conftest import Staff
from tests.derived.calling import call
from tests.derived.shop.models import Author, Book


def publish(model: type[models.Model], model_admin: Any, *operations: str) -> None:
    site = AdminSite("forms")
    site.register(model, model_admin)
    admin_tools(site, {model: operations})


def test_a_form_may_offer_only_related_rows_of_the_user(staff: Staff) -> None:
    class OwnAuthorsAdmin(ModelAdmin):  # type: ignore[type-arg]
        def formfield_for_foreignkey(self, db_field: Any, request: Any, **options: Any) -> Any:
            if db_field.name == "author":
                options["queryset"] = Author.objects.filter(owner=request.user)
            return super().formfield_for_foreignkey(db_field, request, **options)

    publish(Book, OwnAuthorsAdmin, "change", "add")
    told = call("change_book", staff.root, pk=staff.anns.pk, author=staff.author.pk)
    assert "author: Select a valid choice" in told
    assert call("change_book", staff.ann, pk=staff.anns.pk, author=staff.author.pk, pages=3)["row"]["pages"] == 3


def test_a_method_that_fails_for_the_describing_user_is_named(staff: Staff) -> None:
    class ProfileAdmin(ModelAdmin):  # type: ignore[type-arg]
        def get_fields(self, request: Any, obj: Any = None) -> Any:
            return [request.user.profile.column]

    with pytest.raises(InvalidDeclaration, match=r"shop\.Book.*ProfileAdmin.*AttributeError.*'profile'"):
        publish(Book, ProfileAdmin, "change")
