"""Model tools create and update rows: Django's validation, and all or nothing."""

import re
from datetime import datetime
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User

from mcp_app.catalogue import completion
from mcp_app.model_tools import ModelTools, register
from tests.derived.books import ALL, publish
from tests.derived.calling import call, is_not_found, principal
from tests.derived.conftest import Shop
from tests.derived.shop.models import Book, Novel, Tag


def test_a_row_is_created_with_defaults_and_comes_back_whole(shop: Shop) -> None:
    publish()
    given = {
        "title": " Emma ",
        "author": shop.anns.author_id,
        "tags": ["crime"],
        "price": 12.5,
        "sold_at": "2026-11-22T15:30:00+02:00",
        "details": {"b": [1, None], "a": "x"},
    }
    made = call("create_book", shop.ann, **given)
    assert made == {
        "pk": made["pk"],
        "title": "Emma",
        "author": shop.anns.author_id,
        "tags": ["crime"],
        "status": "draft",
        "price": "12.50",
        "published": None,
        "sold_at": "2026-11-22T13:30:00+00:00",
        "pages": 1,
        "details": {"b": [1, None], "a": "x"},
        "changed_at": made["changed_at"],
    }
    row = Book.objects.get(pk=made["pk"])
    assert (row.owner, row.secret) == (shop.ann, "")


def test_times_of_a_site_without_time_zones_are_in_its_zone(shop: Shop, settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "America/New_York"
    publish()
    changed = call("update_book", shop.ann, pk=shop.anns.pk, sold_at="2026-07-01T12:00:00Z")
    assert changed["sold_at"] == "2026-07-01T08:00:00-04:00"
    assert Book.objects.get(pk=shop.anns.pk).sold_at == datetime(2026, 7, 1, 8)
    assert call("get_book", shop.ann, pk=shop.anns.pk) == changed
    assert call("update_book", shop.ann, pk=shop.anns.pk, sold_at=changed["sold_at"])["sold_at"] == changed["sold_at"]
    assert call("list_books", shop.ann, sold_at__lt="2026-07-01T12:00:01Z")["items"] != []
    assert call("list_books", shop.ann, sold_at__lt="2026-07-01T12:00:00Z")["items"] == []


def test_an_update_changes_what_was_given_and_nothing_else(shop: Shop) -> None:
    publish()
    shop.anns.tags.add("crime")
    changed = call("update_book", shop.ann, pk=shop.anns.pk, published="2020-02-29", status="out")
    assert (changed["status"], changed["published"], changed["title"]) == ("out", "2020-02-29", "ann's")
    assert changed["tags"] == ["crime"]
    assert call("update_book", shop.ann, pk=shop.anns.pk, published=None, status="draft")["published"] is None
    row = Book.objects.get(pk=shop.anns.pk)
    assert (row.secret, row.owner) == ("hidden", shop.ann)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"title": "LOUD"}, "- title: Do not shout."),
        ({"title": "   "}, "- title: This field is required."),
        ({"title": "x" * 21}, "- title: .*at most 20 characters"),
        ({"price": -1}, "- price: "),
        ({"price": "10.555"}, "- price: Ensure that there are no more than 2 decimal places."),
        ({"author": 10**6}, "- author: Select a valid choice. That choice is not one of the available choices."),
        ({"tags": ["nothing"]}, "- tags: Select a valid choice. nothing is not one of the available choices."),
        ({"status": "lost"}, "- status: "),
        ({"published": "tomorrow"}, r"- published: .* date\b.* \d{4}-\d\d-\d\d\W"),
        ({"sold_at": "9999-12-31T23:59:59-12:00"}, r"- sold_at: .* date and time\b.* \d{4}-\d\d-\d\dT"),
        ({"status": "out"}, "- published: What is in the shops was published."),
        ({"title": "taken"}, "- Book with this Author and Title already exists."),
        ({"title": "forbidden"}, "- Constraint “shop_not_forbidden” is violated."),
        ({"secret": "mine"}, 'must not have "secret"'),
        ({"title": None}, "- title: "),
        ({"title": "a\x00b"}, "- title: Null characters"),
        ({"details": {"a": [{"b\x00": 1}]}}, "- details: Null characters"),
        ({"details": "\\\x00"}, "- details: Null characters"),
        ({"details": None}, "- details: This field cannot be null."),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_does_not_fit_is_said_by_field_and_nothing_is_stored(
    shop: Shop, given: dict[str, Any], complaint: str
) -> None:
    publish()
    Book.objects.create(title="taken", author=shop.anns.author, price=1, owner=shop.ann)
    new = {"title": "new", "author": shop.anns.author_id, "price": "1", "published": None}
    before = list(Book.objects.order_by("pk").values())
    told = call("create_book", shop.ann, **{**new, **given})
    assert told.splitlines()[1].startswith("- ")
    assert re.search(complaint, told)
    assert re.search(complaint, call("update_book", shop.ann, pk=shop.anns.pk, **given))
    assert list(Book.objects.order_by("pk").values()) == before


@pytest.mark.parametrize("details", [{"a": [None]}, "\\u0000", "\\\\u0000", "null", "", {}, [], 0, False])
def test_any_other_json_is_kept_as_it_was_given(shop: Shop, details: Any) -> None:
    publish()
    assert call("update_book", shop.ann, pk=shop.anns.pk, details=details)["details"] == details
    assert call("get_book", shop.ann, pk=shop.anns.pk)["details"] == details


def test_whether_a_row_may_be_changed_is_asked_of_it_as_it_is_when_locked(shop: Shop) -> None:
    def has_object_permission(self: ModelTools, user: Any, action: str, obj: Any) -> bool:
        may = action == "view" or obj.status == "draft"
        Book.objects.filter(pk=obj.pk).update(status="out")  # another process changes it before it is locked
        return may

    publish(has_object_permission=has_object_permission)
    assert "may not change" in call("update_book", shop.ann, pk=shop.anns.pk, pages=2)


def test_a_row_takes_the_permission_on_itself_where_that_is_asked_for(shop: Shop, monkeypatch: Any) -> None:
    granted = {("shop.view_book", shop.anns.pk)}
    plain = User.has_perm

    def has_perm(self: User, perm: str, obj: Any = None) -> bool:
        return plain(self, perm) if obj is None else (perm, obj.pk) in granted

    monkeypatch.setattr(User, "has_perm", has_perm)
    publish(object_permissions=True, get_queryset=lambda self, user: Book.objects.all())
    assert [each["pk"] for each in call("list_books", shop.ann)["items"]] == [shop.anns.pk]
    assert is_not_found(call("get_book", shop.ann, pk=shop.bens.pk), "book", shop.bens.pk)
    assert is_not_found(call("update_book", shop.ann, pk=shop.bens.pk, pages=2), "book", shop.bens.pk)
    assert "may not change" in call("update_book", shop.ann, pk=shop.anns.pk, pages=2)
    granted.add(("shop.change_book", shop.anns.pk))
    assert call("update_book", shop.ann, pk=shop.anns.pk, pages=2)["pages"] == 2


def test_an_authors_form_validates_with_the_fields_that_were_not_given(shop: Shop) -> None:
    class BookForm(forms.ModelForm):
        def clean(self) -> dict[str, Any] | None:
            if self.cleaned_data["author"].name not in self.cleaned_data["title"]:
                self.add_error("author", "The title names another author.")
            return super().clean()

    publish(form=BookForm)
    assert "- author: The title names another author." in call("update_book", shop.ann, pk=shop.anns.pk, title="by B.")
    assert call("update_book", shop.ann, pk=shop.anns.pk, title="by A. ann")["title"] == "by A. ann"


def test_who_may_not_see_what_they_wrote_is_told_its_key(shop: Shop) -> None:
    publish()
    shop.ann.user_permissions.remove(*shop.ann.user_permissions.filter(codename="view_book"))
    made = call("create_book", User.objects.get(pk=shop.ann.pk), title="new", author=shop.anns.author_id, price=1)
    assert made == {"pk": Book.objects.get(title="new").pk}


def test_a_token_that_may_write_and_not_read_is_told_the_key(shop: Shop) -> None:
    publish(operations={"get": {"scopes": ["books:read"]}, "update": {"scopes": ["books:write"]}})
    told = call("update_book", shop.ann, ["books:write"], pk=shop.anns.pk, pages=2)
    assert told == {"pk": shop.anns.pk}
    assert call("update_book", shop.ann, ["books:write", "books:read"], pk=shop.anns.pk, pages=3)["pages"] == 3


@pytest.mark.parametrize("failing", ["save", "tags"])
def test_a_write_that_fails_leaves_nothing(shop: Shop, monkeypatch: Any, failing: str) -> None:
    def save(self: ModelTools, user: Any, obj: Book) -> None:
        obj.save()
        raise RuntimeError("the printer is on fire")

    def no_tags(*_: Any, **__: Any) -> None:
        raise RuntimeError("the printer is on fire")

    publish(**({"save": save} if failing == "save" else {}))
    if failing == "tags":
        monkeypatch.setattr(type(shop.anns.tags), "set", no_tags)
    new = {"title": "new", "author": shop.anns.author_id, "price": 1, "tags": ["crime"]}
    assert "internal error" in call("create_book", shop.ann, **new)
    assert not Book.objects.filter(title="new").exists()


def test_what_the_database_alone_refuses_is_a_conflict(shop: Shop) -> None:
    def save(self: ModelTools, user: Any, obj: Book) -> None:
        Book.objects.create(title=obj.title, author=obj.author, price=1)  # another process was faster
        obj.save()

    publish(save=save)
    told = call("create_book", shop.ann, title="new", author=shop.anns.author_id, price=1)
    assert "conflicts" in told
    assert not Book.objects.filter(title="new").exists()


def test_keys_need_not_be_numbers(shop: Shop) -> None:
    register(Tag)(type("Tags", (ModelTools,), {"fields": ("word", "is_secret"), "operations": ("get", "list")}))
    root = User.objects.create_superuser("root")
    assert call("get_tag", root, pk="spy") == {"pk": "spy", "word": "spy", "is_secret": True}


def test_a_row_of_two_tables_is_one(shop: Shop) -> None:
    fields = ("title", "author", "price", "length", "words", "letters")
    members = {"fields": fields, "operations": ALL, "filters": ("length__gte",)}
    register(Novel)(type("Novels", (ModelTools,), members))
    root = User.objects.create_superuser("root")
    made = call("create_novel", root, title="Emma", author=shop.anns.author_id, price=1)
    assert (made["words"], made["letters"]) == (None, None)
    pk = made["pk"]
    changed = call("update_novel", root, pk=pk, title="Eve", words=7, length="P1DT2H")
    assert (changed["title"], changed["letters"], changed["length"]) == ("Eve", 42, "P1DT02H00M00S")
    assert call("list_novels", root, length__gte="P1D") == {"items": [changed], "next_offset": None}
    assert re.search("- length: .*duration", call("update_novel", root, pk=pk, length="P999999999D"))
    assert re.search("- length__gte: .*duration", call("list_novels", root, length__gte="P999999999D"))
    found = completion.complete_template("model://shop.novel/{pk}", "pk", str(pk), {}, principal(root))
    assert found["completion"]["values"] == [str(pk)]
