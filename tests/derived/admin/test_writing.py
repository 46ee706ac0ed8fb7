"""Rows are added, changed and deleted as the admin does it, with its log."""

from datetime import datetime
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry

from mcp_app.catalogue import catalogue
from mcp_app.derived.admin.admin_calls import AdminCall
from mcp_app.model_tools import admin_tools
from tests.derived.admin.conftest import Staff
from tests.derived.admin.library import library
from tests.derived.calling import call, is_not_found, offered, principal, schemas, user
from tests.derived.shop.models import Author, Book, Cover, Loan, Review, Tag

pytestmark = pytest.mark.usefixtures("_published")

ALL = ("read", "add", "change", "delete")


@pytest.fixture
def _published() -> None:
    admin_tools(library(), {Book: ALL, Author: ALL, Tag: ALL})


def logged() -> list[tuple[str, int, str, str]]:
    """Return user, flag, object and message of the log, oldest first."""
    entries = LogEntry.objects.order_by("pk")
    return [(each.user.username, each.action_flag, each.object_repr, each.get_change_message()) for each in entries]


def test_a_row_is_added_by_the_form_and_saved_by_the_model_admin(staff: Staff) -> None:
    schema, _ = schemas("add_book", staff.root)
    assert schema["required"] == ["title", "author", "price"]
    made = call("add_book", staff.root, title="Emma", author=staff.author.pk, price="7.50", tags=["crime"])
    assert made["messages"] == ["The shelf was informed."]
    assert made["row"]["tags"] == ["crime"]
    book = Book.objects.get(pk=made["row"]["pk"])
    assert (book.owner, book.status, book.details) == (staff.root, "draft", {})
    assert logged() == [("root", ADDITION, "Emma", "Added.")]


def test_only_given_fields_change_and_the_log_names_them(staff: Staff) -> None:
    sold_at = "2026-03-01T10:00:00.123456+00:00"
    Book.objects.filter(pk=staff.anns.pk).update(sold_at=sold_at, details="text")
    staff.anns.tags.set(["spy"])
    changed = call("change_book", staff.ann, pk=staff.anns.pk, title="Nana", status="draft")["row"]
    book = Book.objects.get(pk=staff.anns.pk)
    assert (changed["title"], changed["tags"]) == (book.title, ["spy"]) == ("Nana", ["spy"])
    assert (book.sold_at.isoformat(), book.details, str(book.price)) == (sold_at, "text", "9.50")
    assert book.secret == "saved by ann for title"
    assert logged() == [("ann", CHANGE, "Nana", "Changed Title.")]
    changed = call("change_book", staff.ann, pk=staff.anns.pk, sold_at="2026-04-01T12:00:00Z", tags=[])["row"]
    assert (changed["sold_at"][:10], changed["tags"]) == ("2026-04-01", [])
    assert logged()[-1][3] == "Changed Tags and Sold at."
    assert call("change_book", staff.ann, pk=staff.anns.pk, sold_at=None)["row"]["sold_at"] is None


def test_times_of_a_site_without_time_zones_are_in_its_zone(staff: Staff, settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "America/New_York"
    key = staff.anns.pk
    changed = call("change_book", staff.ann, pk=key, sold_at="2026-07-01T12:00:00Z")["row"]
    assert changed["sold_at"] == "2026-07-01T08:00:00-04:00"
    again = call("change_book", staff.ann, pk=key, sold_at="2026-07-01T08:00:00", title="Nana")["row"]
    assert (again["sold_at"], again["secret"]) == (changed["sold_at"], "saved by ann for title")
    assert call("get_book", staff.ann, pk=key)["sold_at"] == changed["sold_at"]
    assert Book.objects.get(pk=key).sold_at == datetime(2026, 7, 1, 8)


def test_read_only_fields_stay(staff: Staff) -> None:
    assert "secret" not in schemas("change_book", staff.root)[0]["properties"]
    assert "price" in schemas("change_book", staff.root)[0]["properties"]
    told = call("change_book", staff.ann, pk=staff.anns.pk, price=1)
    assert told.endswith("- price: You cannot set this field.")
    assert "secret" in call("change_book", staff.ann, pk=staff.anns.pk, secret="x")
    assert str(Book.objects.get(pk=staff.anns.pk).price) == "9.50"
    assert call("change_book", staff.root, pk=staff.anns.pk, price=1)["row"]["price"] == "1.00"


def test_the_model_admin_decides_who_may_write(staff: Staff) -> None:
    assert offered(staff.looker) == {"list_books", "get_book", "change_book"}  # it has its own has_change_permission
    assert call("change_book", staff.looker, pk=staff.anns.pk, title="x") == "You may not change this."
    assert call("change_book", staff.ann, pk=staff.bens.pk, title="x") == "You may not change this."
    hidden = call("change_book", user("newcomer", is_staff=True), pk=staff.bens.pk, title="x")
    assert is_not_found(hidden, "book", staff.bens.pk)
    for tool, given in (("add_author", {"name": "A"}), ("delete_author", {"pk": staff.author.pk, "confirm": True})):
        assert call(tool, staff.visitor, **given) == "You do not have permission to do this."
    assert logged() == []


def test_a_writer_who_may_not_view_receives_the_key_only(staff: Staff) -> None:
    adder = user("adder", "add_author", is_staff=True)
    made = call("add_author", adder, name="A. new")
    assert made["row"] == {"pk": Author.objects.get(name="A. new").pk}


def test_problems_of_the_form_are_reported_by_field(staff: Staff) -> None:
    told = call("add_book", staff.root, title="LOUD", author=10**6, price="7.555")
    assert {line.partition(":")[0] for line in told.splitlines()[1:]} == {"- title", "- author", "- price"}
    told = call("change_book", staff.root, pk=staff.anns.pk, status="out")
    assert told.endswith("- published: What is in the shops was published.")
    told = call("add_book", staff.root, title="ann's", author=staff.author.pk, price=1)
    assert "already exists" in told
    assert "violated" in call("add_book", staff.root, title="forbidden", author=staff.author.pk, price=1)
    assert logged() == []


@pytest.mark.parametrize(
    "given",
    [{"title": "a\x00b"}, {"details": "a\x00b"}, {"author": 2**80}, {"tags": ["none"]}, {"price": "NaN"}, {"owner": 1}],
)
def test_hostile_values_are_refused(staff: Staff, given: dict[str, Any]) -> None:
    before = Book.objects.filter(pk=staff.anns.pk).values().get()
    assert isinstance(call("change_book", staff.root, pk=staff.anns.pk, **given), str)
    assert Book.objects.filter(pk=staff.anns.pk).values().get() == before
    assert logged() == []


def test_a_key_is_set_when_a_row_is_added_and_never_changed(staff: Staff) -> None:
    assert call("add_tag", staff.root, word="new")["row"]["pk"] == "new"
    assert "word" not in schemas("change_tag", staff.root)[0]["properties"]
    assert call("change_tag", staff.root, pk="new", is_secret=True)["row"] == {
        "pk": "new",
        "word": "new",
        "is_secret": True,
    }
    assert Tag.objects.filter(word="new").count() == 1


def test_a_file_stays_and_is_no_argument(staff: Staff) -> None:
    admin_tools(library(), {Cover: ["change"]})
    cover = Cover.objects.create(image="emma.png", thumbnail=b"x")
    assert set(schemas("change_cover", staff.root)[0]["properties"]) == {"pk"}
    assert call("change_cover", staff.root, pk=cover.pk)["row"] == {"pk": cover.pk, "image": "emma.png"}
    assert Cover.objects.get(pk=cover.pk).image.name == "emma.png"
    assert logged()[-1][3] == "No fields changed."


def test_delete_shows_a_preview_before_it_deletes(staff: Staff) -> None:
    Review.objects.create(book=staff.anns, text="fine")
    preview = call("delete_book", staff.ann, pk=staff.anns.pk)
    assert preview == {
        "deleted": False,
        "object": "ann's",
        "counts": {"books": 1, "reviews": 1},
        "protected": [],
        "missing_permissions": [],
        "messages": [],
    }
    assert Book.objects.filter(pk=staff.anns.pk).exists()
    assert call("delete_book", staff.ann, pk=staff.anns.pk, confirm=False) == preview
    assert call("delete_book", staff.ann, pk=staff.anns.pk, confirm=True) == {**preview, "deleted": True}
    assert not Book.objects.filter(pk=staff.anns.pk).exists()
    assert [(name, flag, text) for name, flag, text, _ in logged()] == [("ann", DELETION, "ann's")]
    assert is_not_found(call("delete_book", staff.ann, pk=staff.anns.pk, confirm=True), "book", staff.anns.pk)


def test_a_protected_row_is_not_deleted(staff: Staff) -> None:
    Loan.objects.create(book=staff.anns)
    assert call("delete_book", staff.ann, pk=staff.anns.pk)["protected"] == ["Loan: loan of <ann's>"]
    assert "Loan: loan of <ann's>" in call("delete_book", staff.ann, pk=staff.anns.pk, confirm=True)
    assert Book.objects.filter(pk=staff.anns.pk).exists()
    assert logged() == []


def test_dependent_rows_need_their_own_permission(staff: Staff) -> None:
    Review.objects.create(book=staff.anns, text="fine")
    eraser = user("eraser", "view_book", "delete_book", is_staff=True)
    assert call("delete_book", eraser, pk=staff.anns.pk)["missing_permissions"] == ["review"]
    assert "review" in call("delete_book", eraser, pk=staff.anns.pk, confirm=True)
    assert Book.objects.filter(pk=staff.anns.pk).exists()


def test_a_row_that_another_call_deletes_meanwhile_is_not_logged_again(
    staff: Staff, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock(self: AdminCall, row: Any) -> None:  # the other call had the lock
        Tag.objects.filter(pk=row.pk).delete()

    monkeypatch.setattr(AdminCall, "lock", lock)
    assert is_not_found(call("delete_tag", staff.ann, pk="spy", confirm=True), "tag", "spy")
    assert is_not_found(call("change_tag", staff.ann, pk="crime", is_secret=True), "tag", "crime")
    assert logged() == []


def test_delete_is_marked_as_destructive(staff: Staff) -> None:
    found = catalogue.find("delete_book", principal(staff.root))
    assert found is not None
    assert found.wire()["annotations"]["destructiveHint"] is True


def test_a_call_over_the_wire_is_logged_for_its_user(staff: Staff, mcp_client: Any) -> None:
    mcp_client.force_login(staff.ann)
    changed = mcp_client.call("change_book", pk=staff.anns.pk, title="Nana").structured
    assert changed["row"]["title"] == "Nana"
    assert logged() == [("ann", CHANGE, "Nana", "Changed Title.")]
