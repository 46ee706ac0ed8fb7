"""The snippet of docs/models.md publishes a viewset."""

import re
import sys
from types import SimpleNamespace

import pytest

from tests.derived.calling import offered
from tests.derived.conftest import Shop
from tests.derived.drf.test_viewsets import BookViewSet
from tests.derived.test_docs import PAGE


def test_the_page_publishes_a_viewset(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    [snippet] = [each for each in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "drf" in each]
    monkeypatch.setitem(sys.modules, "shop", sys.modules["tests.derived.shop"])
    monkeypatch.setitem(sys.modules, "shop.api", SimpleNamespace(BookViewSet=BookViewSet))
    exec(compile(snippet, str(PAGE), "exec"), {"__name__": "shop.mcp_tools"})
    assert offered(shop.ann) == {"list_books", "get_book", "update_book"}
