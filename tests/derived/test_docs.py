"""The snippets of docs/how-to/models.md work as the page describes."""

import sys
from typing import Any

import pytest

from tests.derived.calling import call, offered
from tests.derived.conftest import Shop
from tests.derived.shop import models
from tests.derived.shop.models import Book
from tests.docs.pages import snippet

pytestmark = pytest.mark.usefixtures("_page")


PYTHON = (
    snippet("how-to/models.md#models-forms-and-viewsets-as-tools"),
    snippet("how-to/models.md#models-forms-and-viewsets-as-tools:2"),
    snippet("how-to/models.md#forms"),
)


@pytest.fixture
def _page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the page's Python in order, as one module of an app named shop.

    Viewsets have tests of their own.
    """
    monkeypatch.setitem(sys.modules, "shop", sys.modules["tests.derived.shop"])
    monkeypatch.setitem(sys.modules, "shop.models", models)
    names: dict[str, Any] = {"__name__": "shop.mcp_tools"}
    for block in PYTHON:
        exec(compile(block.text, block.name, "exec"), names)


def test_the_page_publishes_books(shop: Shop) -> None:
    assert offered(shop.ann) >= {"list_books", "get_book", "create_book", "update_book", "browse_books"}
    made = call("create_book", shop.ann, title="Emma", author=shop.anns.author_id, price="7.00")
    assert (made["author_name"], made["status"]) == ("A. ann", "draft")
    assert [each["title"] for each in call("list_books", shop.ann, price__lt=8)["items"]] == ["Emma"]
    told = call("create_book", shop.ann, title="Emma", author=shop.anns.author_id, price="7.005")
    assert f"{told}\n" == snippet("how-to/models.md#what-is-checked").text


def test_what_the_page_makes_everybodys_is(shop: Shop) -> None:
    Book.objects.filter(pk=shop.bens.pk).update(status="out")
    assert "list_books" not in offered(None)
    assert call("browse_books", None)["items"] == [{"pk": shop.bens.pk, "title": "ben's"}]


def test_the_page_offers_a_form(shop: Shop) -> None:
    assert "wrote about order" in call("contact", None, topic="order", message="Where is it?")
    assert "- message: " in call("contact", None, topic="order", message="")
