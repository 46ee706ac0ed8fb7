"""The snippets of docs/how-to/drf.md publish viewsets."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.derived.calling import offered
from tests.derived.conftest import Shop
from tests.derived.drf.test_routers import router
from tests.derived.drf.test_viewsets import BookViewSet
from tests.docs.pages import executed, snippet


@pytest.fixture(autouse=True)
def _shop(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, Any] = {
        "shop": sys.modules["tests.derived.shop"],
        "shop.api": SimpleNamespace(BookViewSet=BookViewSet),
        "shop.urls": SimpleNamespace(router=router()),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


def test_the_page_publishes_a_viewset(shop: Shop) -> None:
    executed(snippet("how-to/drf.md#one-viewset"))
    assert offered(shop.ann) == {"list_books", "get_book", "update_book"}


def test_the_page_publishes_the_viewsets_of_a_router(shop: Shop) -> None:
    executed(snippet("how-to/drf.md#the-viewsets-of-a-router"))
    published = {"list_books", "get_book", "create_book", "update_book", "shred_book"}
    assert offered(shop.ann) == published | {"list_archived_books", "get_archived_book"}
