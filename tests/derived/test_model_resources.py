"""Rows of a published model as resources: rights, one URI for a row, completions."""

import json
import re
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from django.db.models import QuerySet

from mcp_app.catalogue import catalogue, completion, reads
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.errors import InvalidArguments, ResourceNotFound
from mcp_app.catalogue.input.asking import Known
from mcp_app.catalogue.registry import registered_tools
from mcp_app.execution.tool.context import ToolContext
from mcp_app.model_tools import ModelTools, register
from mcp_app.models import Request
from mcp_app.protocol.revisions import MODERN
from tests.derived.calling import call, principal
from tests.derived.conftest import Shop
from tests.derived.shop.models import Book

pytestmark = pytest.mark.usefixtures("_published")


TEMPLATE = "model://shop.book/{pk}"


@pytest.fixture
def _published(shop: Shop) -> None:
    class BookTools(ModelTools):
        fields = ("title", "price")

        def get_queryset(self, user: Any) -> QuerySet[Book]:
            return super().get_queryset(user) if user.username == "looker" else Book.objects.filter(owner=user.pk)

    register(Book)(BookTools)


def read(text: Any, caller: Any) -> dict[str, Any]:
    found = reads.read(f"model://shop.book/{text}", principal(caller), Known(MODERN, {}))
    assert isinstance(found, dict)
    [contents] = found["contents"]
    assert contents["mimeType"] == "application/json"
    shown: dict[str, Any] = json.loads(contents["text"])
    return shown


def templates(caller: Any) -> list[str]:
    page = reads.templates_page(None, principal(caller))
    return [each["uriTemplate"] for each in page.items]


def test_they_are_offered_where_their_tool_is(shop: Shop) -> None:
    class Staff(ModelTools):
        fields = ("title",)
        operations: ClassVar = {"get": {"endpoints": ["staff"]}, "update": {"endpoints": ["public"]}}

    with isolated_registries():
        register(Book)(Staff)
        here, staff, public = (replace(principal(shop.ann), endpoint=name) for name in ("default", "staff", "public"))
        assert [len(reads.templates_page(None, each).items) for each in (here, staff, public)] == [0, 1, 0]
        assert [[tool.name for tool in catalogue.offered(each)] for each in (staff, public)] == [
            ["get_book"],
            ["update_book"],
        ]
        asked = ToolContext(Request(user_id=public.user_id, endpoint="public"), None, None)  # type: ignore[arg-type]
        told = registered_tools()["update_book"].function({"pk": shop.anns.pk, "title": "new"}, asked)
        assert told == {"pk": shop.anns.pk}  # rows are shown to staff


def complete(value: str, caller: Any) -> list[str]:
    values: list[str] = completion.complete_template(TEMPLATE, "pk", value, {}, principal(caller))["completion"][
        "values"
    ]
    return values


def test_a_row_reads_as_its_tool_shows_it(shop: Shop) -> None:
    assert templates(shop.ann) == [TEMPLATE]
    assert read(shop.anns.pk, shop.ann) == call("get_book", shop.ann, pk=shop.anns.pk)


@pytest.mark.parametrize("key", ["{foreign}", "999999", "0{own}", "+{own}", "x", "{own}.0", "%00", "9" * 30])
def test_rows_of_others_and_other_ways_to_write_a_key_are_not_found(shop: Shop, key: str) -> None:
    with pytest.raises(ResourceNotFound):
        read(key.format(own=shop.anns.pk, foreign=shop.bens.pk), shop.ann)


def test_without_the_permission_there_is_no_such_resource(shop: Shop) -> None:
    for caller in (None, shop.nobody):
        assert templates(caller) == []
        with pytest.raises(ResourceNotFound):
            read(shop.anns.pk, caller)
        with pytest.raises(InvalidArguments, match=f"template.* {re.escape(TEMPLATE)}"):
            complete("", caller)


def test_keys_are_completed_among_the_callers_rows(shop: Shop) -> None:
    assert complete("", shop.ann) == [str(shop.anns.pk)]
    assert complete(str(shop.bens.pk), shop.ann) == [] or str(shop.anns.pk).startswith(str(shop.bens.pk))
    assert complete("", shop.looker) == [str(shop.anns.pk), str(shop.bens.pk)]
    Book.objects.bulk_create(
        Book(pk=1000 + number, title=str(number), author=shop.anns.author, price=1, owner=shop.ann)
        for number in range(120)
    )
    assert len(complete("1", shop.ann)) == 100
    assert complete("1119", shop.ann) == ["1119"]
