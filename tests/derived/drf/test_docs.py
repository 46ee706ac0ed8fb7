"""The snippet of docs/how-to/models.md publishes a viewset."""

import sys
from types import SimpleNamespace

import pytest

from tests.derived.calling import offered
from tests.derived.conftest import Shop
from tests.derived.drf.test_viewsets import BookViewSet
from tests.docs.pages import snippet


def test_the_page_publishes_a_viewset(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    block = snippet("how-to/models.md#viewsets-of-django-rest-framework")
    monkeypatch.setitem(sys.modules, "shop", sys.modules["tests.derived.shop"])
    monkeypatch.setitem(sys.modules, "shop.api", SimpleNamespace(BookViewSet=BookViewSet))
    exec(compile(block.text, block.name, "exec"), {"__name__": "shop.mcp_tools"})
    assert offered(shop.ann) == {"list_books", "get_book", "update_book"}
