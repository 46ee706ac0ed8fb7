"""Forms of ModelAdmins that depend on the user, or have fields that arguments cannot fill."""

from typing import Any

import pytest
from django import forms
from django.contrib.admin import AdminSite, ModelAdmin
from django.core.exceptions import ValidationError
from django.db import models

from mcp_app.catalogue.errors import InvalidDeclaration
from mcp_app.model_tools import admin_tools
from tests.derived.admin.conftest import Staff
from tests.derived.calling import call
from tests.derived.shop.models import Author, Book, Tag


def publish(model: type[models.Model], model_admin: Any, *operations: str) -> None:
    site = AdminSite("forms")
    site.register(model, model_admin)
    admin_tools(site, {model: operations})


def test_a_form_may_offer_only_related_rows_of_the_user(staff: Staff) -> None:
    class OwnAuthorsAdmin(ModelAdmin):
        def formfield_for_foreignkey(self, db_field: Any, request: Any, **options: Any) -> Any:
            if db_field.name == "author":
                options["queryset"] = Author.objects.filter(owner=request.user)
            return super().formfield_for_foreignkey(db_field, request, **options)

    publish(Book, OwnAuthorsAdmin, "change", "add")
    told = call("change_book", staff.root, pk=staff.anns.pk, author=staff.author.pk)
    assert "author: Select a valid choice" in told
    assert call("change_book", staff.ann, pk=staff.anns.pk, author=staff.author.pk, pages=3)["row"]["pages"] == 3


def test_a_method_that_fails_for_the_describing_user_is_named(staff: Staff) -> None:
    class ProfileAdmin(ModelAdmin):
        def get_fields(self, request: Any, obj: Any = None) -> Any:
            return [request.user.profile.column]

    with pytest.raises(InvalidDeclaration, match=r"shop\.Book.*ProfileAdmin.*AttributeError.*'profile'"):
        publish(Book, ProfileAdmin, "change")


def test_a_change_is_described_without_the_permission_for_a_row(staff: Staff) -> None:
    class OwnBooksAdmin(ModelAdmin):
        def has_change_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or (obj.owner == request.user and not obj.tags.exists())

    publish(Book, OwnBooksAdmin, "change")
    assert call("change_book", staff.ann, pk=staff.anns.pk, pages=2)["row"]["pages"] == 2
    assert call("change_book", staff.ann, pk=staff.bens.pk, pages=2) == "You may not change this."


def test_related_rows_that_the_form_does_not_offer_stay(staff: Staff) -> None:
    class PublicTagsAdmin(ModelAdmin):
        def formfield_for_manytomany(self, db_field: Any, request: Any, **options: Any) -> Any:
            return super().formfield_for_manytomany(
                db_field, request, **options, queryset=Tag.objects.filter(is_secret=False)
            )

    publish(Book, PublicTagsAdmin, "change")
    staff.anns.tags.set(["spy", "crime"])
    changed = call("change_book", staff.ann, pk=staff.anns.pk, title="Nana")["row"]
    assert (changed["title"], sorted(changed["tags"])) == ("Nana", ["crime", "spy"])
    assert "valid choice" in call("change_book", staff.ann, pk=staff.anns.pk, tags=["spy"])
    assert call("change_book", staff.ann, pk=staff.anns.pk, tags=["crime"])["row"]["tags"] == ["crime"]


class SignedForm(forms.ModelForm):
    signature = forms.MultiValueField(fields=[forms.CharField(), forms.CharField()])

    class Meta:
        model = Author
        fields = ("name",)


def test_a_form_that_requires_several_inputs_cannot_add_rows() -> None:
    class SignedAdmin(ModelAdmin):
        form = SignedForm

    with pytest.raises(InvalidDeclaration, match="requires signature"):
        publish(Author, SignedAdmin, "add")


def test_a_form_that_requires_several_inputs_of_some_users_adds_none_of_theirs(staff: Staff) -> None:
    class SignedAdmin(ModelAdmin):
        def get_form(self, request: Any, obj: Any = None, change: bool = False, **options: Any) -> Any:
            form = forms.ModelForm if request.user.is_superuser else SignedForm
            return super().get_form(request, obj, change, form=form, **options)

        def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
            return [(None, {"fields": ["name"]})]

    publish(Author, SignedAdmin, "add", "change")
    assert "- signature: " in call("add_author", staff.ann, name="A. new")
    assert call("add_author", staff.root, name="A. new")["row"]["name"] == "A. new"
    assert call("change_author", staff.ann, pk=staff.author.pk, name="A. old")["row"]["name"] == "A. old"


def test_a_field_for_date_and_time_keeps_its_validators(staff: Staff) -> None:
    def only_later(moment: Any) -> None:
        if moment.year < 2030:
            raise ValidationError("Choose a later year.")

    class LaterForm(forms.ModelForm):
        sold_at = forms.SplitDateTimeField(validators=[only_later])

    class LaterAdmin(ModelAdmin):
        form = LaterForm
        fields = ("sold_at",)

    publish(Book, LaterAdmin, "change")
    told = call("change_book", staff.root, pk=staff.anns.pk, sold_at="2026-01-01T00:00:00Z")
    assert told.endswith("- sold_at: Choose a later year.")
    changed = call("change_book", staff.root, pk=staff.anns.pk, sold_at="2031-01-01T00:00:00Z")["row"]
    assert changed["sold_at"].startswith("2031-01-01")
