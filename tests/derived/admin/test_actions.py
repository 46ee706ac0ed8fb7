"""Actions of a ModelAdmin on several rows."""

from typing import Any

import pytest

from mcp_app.model_tools import admin_tools
from tests.derived.admin.conftest import Staff
from tests.derived.admin.library import library
from tests.derived.calling import call, is_not_found, offered, schemas, user
from tests.derived.shop.models import Book

pytestmark = pytest.mark.usefixtures("_published")


@pytest.fixture
def _published() -> None:
    admin_tools(library(), [], actions={Book: ["mark_out", "archive", "export", "ask", "refuse", "download"]})


def test_an_action_runs_on_the_rows_and_returns_its_messages(staff: Staff) -> None:
    result = call("mark_out_books", staff.ann, pks=[staff.anns.pk, staff.bens.pk])
    assert result == {"rows": 2, "messages": ["2 out"]}
    assert set(Book.objects.values_list("status", flat=True)) == {"out"}
    schema, _ = schemas("mark_out_books", staff.ann)
    assert schema["properties"]["pks"]["maxItems"] == 100


def test_an_action_needs_its_permission(staff: Staff) -> None:
    refused = "You may not run this action."
    assert call("mark_out_books", staff.looker, pks=[staff.anns.pk]) == refused
    assert call("archive_books", staff.looker, pks=[staff.anns.pk]) == refused
    assert call("archive_books", staff.visitor, pks=[staff.anns.pk]) == "You do not have permission to do this."
    assert call("refuse_books", staff.ann, pks=[staff.anns.pk]) == "You do not have permission to do this."
    assert offered(user("newcomer", is_staff=True)) == {"mark_out_books", "archive_books"}
    assert call("mark_out_books", user("other", is_staff=True), pks=[staff.anns.pk]) == refused
    assert set(Book.objects.values_list("status", flat=True)) == {"draft"}


def test_an_action_reads_what_the_page_posts(staff: Staff) -> None:
    assert call("archive_books", staff.ann, pks=[staff.anns.pk]) == {"rows": 1, "messages": []}
    assert Book.objects.get(pk=staff.anns.pk).secret == f"archived archive ['{staff.anns.pk}']"


def test_rows_that_the_caller_does_not_have_are_not_found(staff: Staff) -> None:
    Book.objects.filter(pk=staff.bens.pk).update(title="unseen")
    told = call("mark_out_books", staff.ann, pks=[staff.anns.pk, staff.bens.pk])
    assert is_not_found(told, "book", staff.bens.pk)
    assert Book.objects.get(pk=staff.anns.pk).status == "draft"


def test_text_is_returned_and_a_page_or_a_file_is_not(staff: Staff) -> None:
    assert call("export_books", staff.looker, pks=[staff.anns.pk])["content"] == "ann's"
    assert "a page" in call("ask_books", staff.looker, pks=[staff.anns.pk])
    assert "a file" in call("download_books", staff.looker, pks=[staff.anns.pk])


@pytest.mark.parametrize("keys", [[], [1, 1], [2**80], ["x"], list(range(101))], ids=str)
def test_hostile_keys_are_refused(staff: Staff, keys: Any) -> None:
    told = call("mark_out_books", staff.root, pks=keys)
    assert told.startswith("The arguments do not fit this tool") or "pks" in told
