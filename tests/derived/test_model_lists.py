"""Lists of model tools: filters, order, pages, and a fixed number of queries."""

import re
from typing import Annotated, Any

from django.db import connection
from django.test.utils import CaptureQueriesContext
from pydantic import Field

from mcp_app.model_tools import ModelTools
from tests.derived.books import publish
from tests.derived.calling import call, schemas
from tests.derived.conftest import Shop
from tests.derived.shop.models import Book


def test_a_list_is_narrowed_sorted_and_paged_within_bounds(shop: Shop) -> None:
    publish(max_limit=3)
    for number in range(5):
        book = Book.objects.create(
            title=f"A part {number}",
            author=shop.anns.author,
            price=number,
            owner=shop.ann,
            published=f"202{number}-01-01",
            sold_at=f"202{number}-06-01T00:00:00Z",
        )
        book.tags.set(["crime", "classic"])

    def titles(**arguments: Any) -> list[str]:
        return [each["title"] for each in call("list_books", shop.ann, **arguments)["items"]]

    assert titles() == ["A part 0", "A part 1", "A part 2"]
    assert titles(offset=3) == ["A part 3", "A part 4", "ann's"]
    assert call("list_books", shop.ann)["next_offset"] == 3
    assert call("list_books", shop.ann, offset=3)["next_offset"] is None
    assert titles(order_by="-price", limit=2) == ["ann's", "A part 4"]
    assert titles(title__icontains="PART", price__gte="3.5") == ["A part 4"]
    assert titles(tags="crime", limit=2) == ["A part 0", "A part 1"]
    assert titles(published__year=2021) == ["A part 1"]
    assert titles(sold_at__lt="2021-07-01T00:00:00Z", price__gte=1) == ["A part 1"]
    assert titles(status__in=["out"]) == titles(author=shop.bens.author_id) == []
    for beyond in (
        {"published__year": 0},
        {"published__year": 10_000},
        {"limit": 4},
        {"limit": 0},
        {"offset": 10_001},
        {"order_by": "secret"},
        {"owner": 1},
        {"title__icontains": "a\x00b"},
        {"author": 2**63},
    ):
        [argument] = beyond
        assert re.search(rf'\n- ({argument}: |.*"{argument}")', call("list_books", shop.ann, **beyond))


def test_a_longer_list_takes_no_more_queries(shop: Shop) -> None:
    publish()

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            call("list_books", shop.ann)
        return len(captured)

    shop.anns.tags.set(["crime"])
    few = queries()
    for number in range(20):
        book = Book.objects.create(title=f"Part {number}", author=shop.anns.author, price=1, owner=shop.ann)
        book.tags.set(["crime", "classic"])
    assert queries() == few


def test_methods_of_the_class_are_read_only_columns(shop: Shop) -> None:
    def author_name(self: ModelTools, row: Book) -> Annotated[str, Field(max_length=50)]:
        """Who wrote it."""
        return row.author.name

    publish(fields=("title", "author_name"), author_name=author_name, operations=("get", "update"), ordering_fields=())
    assert call("get_book", shop.ann, pk=shop.anns.pk)["author_name"] == "A. ann"
    taken, shown = schemas("update_book", shop.ann)
    assert set(taken["properties"]) == {"pk", "title"}
    assert shown["properties"]["author_name"] == {"type": "string", "maxLength": 50, "description": "Who wrote it."}
