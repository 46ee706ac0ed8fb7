"""Lists and rows of a ModelAdmin, for callers with and without rights."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User

from mcp_app.catalogue.errors import InvalidDeclaration
from mcp_app.model_tools import admin_tools
from tests.derived.admin.conftest import Staff
from tests.derived.admin.library import library
from tests.derived.calling import call, is_not_found, offered, schemas, user
from tests.derived.shop.models import Author, Book, Cover, Tag

REFUSED = "You do not have permission to do this."


@pytest.fixture
def _published() -> None:
    admin_tools(library(), [Book])


def test_only_reading_is_published_by_default(staff: Staff) -> None:
    admin_tools(library(), [Book, Author])
    assert offered(staff.root) == {"list_books", "get_book", "list_authors", "get_author"}


def test_names_begin_with_the_prefix(staff: Staff) -> None:
    admin_tools(library(), {Book: ["read", "add", "change", "delete"]}, actions={Book: ["export"]}, prefix="admin_")
    names = {"list_books", "get_book", "add_book", "change_book", "delete_book", "export_books"}
    assert offered(staff.root) == {f"admin_{name}" for name in names}


@pytest.mark.usefixtures("_published")
def test_tools_are_hidden_without_permission_and_refused_without_the_admin(staff: Staff) -> None:
    assert offered(None) == offered(user("nobody2", is_staff=True)) == set()
    assert call("list_books", staff.visitor) == call("get_book", staff.visitor, pk=staff.anns.pk) == REFUSED


def test_the_model_admin_decides_where_the_author_shows_the_tool_to_everybody(staff: Staff) -> None:
    admin_tools(library(), {Book: {"read": {"permissions": ()}}})
    changer = user("changer", "change_book", is_staff=True)
    assert call("list_books", None) == REFUSED
    assert call("list_books", user("newcomer", is_staff=True)) == "You may not view this."
    assert len(call("list_books", changer)["items"]) == 2
    assert is_not_found(call("get_book", user("other", is_staff=True), pk=staff.anns.pk), "book", staff.anns.pk)


@pytest.mark.usefixtures("_published")
def test_a_list_has_the_columns_of_the_admin_and_pages(staff: Staff) -> None:
    Book.objects.create(title="Carmen", author=staff.author, price="30", pages=200)
    Book.objects.create(title="unseen", author=staff.author, price="30")
    first = call("list_books", staff.looker)
    assert first["items"][0] == {
        "pk": Book.objects.get(title="Carmen").pk,
        "title": "Carmen",
        "author": "A. ann",
        "price": "30.00",
        "is_long": True,
    }
    assert first["next_offset"] == 2
    rest = call("list_books", staff.looker, offset=2)
    assert [each["title"] for each in rest["items"]] == ["ben's"]
    assert rest["next_offset"] is None
    assert [each["title"] for each in call("list_books", staff.looker, order_by="-price", limit=1)["items"]] == [
        "Carmen"
    ]


@pytest.mark.usefixtures("_published")
def test_search_and_filters_are_the_admins(staff: Staff) -> None:
    def titles(**given: Any) -> list[str]:
        return [each["title"] for each in call("list_books", staff.looker, **given)["items"]]

    schema, _ = schemas("list_books", staff.looker)
    assert set(schema["properties"]) == {
        *("search", "status", "author", "sold_at__gte", "sold_at__lt", "costs"),
        *("order_by", "limit", "offset"),
    }
    staff.anns.tags.set(["classic", "crime"])
    staff.bens.sold_at = datetime(2026, 3, 1, tzinfo=UTC)
    staff.bens.price = "12"
    staff.bens.save()
    assert titles(search="c") == ["ann's"]  # once, although two tags contain it
    assert titles(search="ben") == titles(sold_at__gte="2026-01-01T00:00:00Z") == titles(costs="much") == ["ben's"]
    assert titles(author=staff.author.pk) == titles(costs="little") == ["ann's"]
    assert titles(status="out") == []
    assert call("list_books", staff.looker, costs="nothing").endswith("- costs: Choose one of: little, much")


@pytest.mark.usefixtures("_published")
@pytest.mark.parametrize("text", ["\x00", "\"'", "%_\\", "'; drop table", "q " * 99, "x" * 201])
def test_hostile_searches_find_nothing(staff: Staff, text: str) -> None:
    found = call("list_books", staff.looker, search=text)
    assert isinstance(found, str) or found["items"] == []


@pytest.mark.usefixtures("_published")
@pytest.mark.parametrize("key", [0, -1, 2**63, 2**80])
def test_keys_of_no_row_are_not_found(staff: Staff, key: int) -> None:
    assert isinstance(call("get_book", staff.looker, pk=key), str)


@pytest.mark.usefixtures("_published")
def test_a_row_has_the_fields_of_the_admins_form(staff: Staff) -> None:
    staff.anns.tags.set(["crime"])
    assert call("get_book", staff.looker, pk=staff.anns.pk) == {
        "pk": staff.anns.pk,
        "title": "ann's",
        "author": staff.author.pk,
        "tags": ["crime"],
        "status": "draft",
        "price": "9.50",
        "published": None,
        "sold_at": None,
        "details": {},
        "secret": "hidden",
        "is_long": False,
    }
    Book.objects.filter(pk=staff.bens.pk).update(title="unseen")
    assert is_not_found(call("get_book", staff.root, pk=staff.bens.pk), "book", staff.bens.pk)


def test_passwords_are_not_shown(staff: Staff) -> None:
    site = AdminSite("users")
    site.register(User, UserAdmin)
    admin_tools(site, {User: ["read", "change"]})
    staff.ann.set_password("opensesame")
    staff.ann.save()
    shown = call("get_user", staff.root, pk=staff.ann.pk)
    assert shown["username"] == "ann"
    assert "password" not in shown
    assert "password" not in schemas("change_user", staff.root)[0]["properties"]
    assert call("change_user", staff.root, pk=staff.ann.pk, first_name="Ann")["row"]["first_name"] == "Ann"
    assert User.objects.get(pk=staff.ann.pk).check_password("opensesame")


def test_a_model_that_the_admin_has_not_loaded_yet_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    site = AdminSite("late")
    monkeypatch.setattr("django.contrib.admin.autodiscover", lambda: site.register(Book))
    admin_tools(site, {Book: {"read": {"permissions": ()}}})
    assert offered(None) == {"list_books", "get_book"}


class BrokenAdmin(ModelAdmin):
    fields = ("titel",)


@pytest.mark.parametrize(
    ("models", "actions", "facts"),
    [
        ({User: ["read"]}, {}, ["auth.User", "'library'"]),
        ({Book: ["list"]}, {}, ["shop.Book", "'list'", "read, add, change, delete"]),
        ({Book: "read"}, {}, ["shop.Book", "a list of names"]),
        (Book, {}, ["a list of models"]),
        ({Book: {"read": {"name": "look"}}}, {}, ["shop.Book", "prefix"]),
        ([], {Book: ["burn"]}, ["shop.Book", "'burn'", "archive, ask, download, export, mark_out"]),
        ([], {Book: ["delete_selected"]}, ["shop.Book", "publish delete"]),
        ({Cover: ["add"]}, {}, ["shop.Cover", "image"]),
        ({Tag: ["add"]}, {}, ["shop.Tag", "titel"]),
    ],
    ids=str,
)
def test_what_cannot_be_published_is_refused(models: Any, actions: Any, facts: list[str]) -> None:
    site = library()
    site.unregister(Tag)
    site.register(Tag, BrokenAdmin)
    with pytest.raises(InvalidDeclaration) as refused:
        admin_tools(site, models, actions=actions)
    assert [fact for fact in facts if fact not in str(refused.value)] == []
    assert offered(None) == set()
