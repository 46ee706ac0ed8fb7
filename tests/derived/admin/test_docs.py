"""The snippets of docs/how-to/admin-tools.md work as the page describes."""

import json
import sys

import pytest

from tests.derived.admin.conftest import Staff
from tests.derived.admin.library import library
from tests.derived.calling import call, offered
from tests.derived.shop import models
from tests.derived.shop.models import Book, Review
from tests.docs.pages import executed, snippet


@pytest.fixture(autouse=True)
def _page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shop", sys.modules["tests.derived.shop"])
    monkeypatch.setitem(sys.modules, "shop.models", models)
    monkeypatch.setattr("django.contrib.admin.site", library())
    executed(snippet("how-to/admin-tools.md#models-of-the-admin-as-tools"))


def test_the_page_publishes_models_of_the_admin(staff: Staff) -> None:
    reading = {"list_authors", "get_author", "list_books", "get_book"}
    assert offered(staff.root) == reading | {"add_book", "change_book", "delete_book", "mark_out_books"}
    assert call("mark_out_books", staff.root, pks=[staff.anns.pk])["messages"] == ["1 out"]


def test_the_page_shows_the_preview_of_a_deletion(staff: Staff) -> None:
    emma = Book.objects.create(title="Emma", author=staff.author, price=7)
    Review.objects.create(book=emma, text="good")
    Review.objects.create(book=emma, text="long")
    preview = call("delete_book", staff.root, pk=emma.pk)
    assert json.dumps(preview, indent=2) + "\n" == snippet("how-to/admin-tools.md#deleting").text
