"""A model published as tools: rights, rows and fields of each caller."""

import re
from typing import Any

import pytest

from mcp_app.catalogue.errors import InvalidDeclaration
from mcp_app.model_tools import ModelTools, register
from tests.derived.books import publish
from tests.derived.calling import call, is_not_found, offered, schemas
from tests.derived.conftest import Shop
from tests.derived.shop.models import Book, Cover, Tag


def test_permissions_of_django_hide_each_tool(shop: Shop) -> None:
    publish()
    assert offered(None) == offered(shop.nobody) == set()
    assert offered(shop.looker) == {"list_books", "get_book"}
    assert offered(shop.ann) == {"list_books", "get_book", "create_book", "update_book"}


def test_reading_alone_is_published_by_default_under_names_that_options_change(shop: Shop) -> None:
    register(Book)(type("Books", (ModelTools,), {"fields": ("title",)}))
    options: dict[str, Any] = {"get": {"name": "look_up", "permissions": (), "queue": "fast"}}
    register(Book.objects.filter(owner=shop.ben))(
        type("Bens", (ModelTools,), {"fields": ("title",), "operations": options, "resource": False})
    )
    assert offered(shop.ann) == {"list_books", "get_book", "look_up"}
    assert call("look_up", None, pk=shop.bens.pk) == {"pk": shop.bens.pk, "title": "ben's"}
    assert is_not_found(call("look_up", None, pk=shop.anns.pk), "book", shop.anns.pk)


def test_what_is_not_named_is_not_published(shop: Shop) -> None:
    publish()
    for schema in schemas("create_book", shop.ann) + schemas("list_books", shop.ann):
        assert "secret" not in str(schema)
    assert "hidden" not in str(call("get_book", shop.ann, pk=shop.anns.pk))


def test_schemas_say_exactly_what_the_fields_take(shop: Shop) -> None:
    publish(read_only=("pages",))
    schema, shown = schemas("create_book", shop.ann)
    assert schema["required"] == ["title", "author", "price"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "title": {"type": "string", "minLength": 1, "maxLength": 20, "description": "As on the cover."},
        "author": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "status": {"enum": ["draft", "out"], "default": "draft", "description": "out: In the shops."},
        "price": {"type": ["string", "number"], "pattern": "^[+-]?[0-9]+(\\.[0-9]+)?$", "minimum": 0},
        "published": {"type": ["string", "null"], "format": "date"},
        "sold_at": {"type": ["string", "null"], "format": "date-time"},
        "details": {},
    }
    assert shown["properties"]["changed_at"] == {"type": "string", "format": "date-time"}
    assert shown["properties"]["title"]["description"] == "As on the cover"
    update, _ = schemas("update_book", shop.ann)
    assert update["required"] == ["pk"]
    assert "default" not in update["properties"]["status"]
    listing, page = schemas("list_books", shop.ann)
    assert listing["properties"]["status__in"] == {
        "type": "array",
        "items": {"type": "string", "enum": ["draft", "out"]},
        "maxItems": 100,
    }
    assert listing["properties"]["order_by"]["enum"] == ["title", "-title", "price", "-price"]
    assert page["properties"]["items"]["items"] == schemas("get_book", shop.ann)[1]


def test_rows_of_others_are_not_found(shop: Shop) -> None:
    publish()
    assert [each["pk"] for each in call("list_books", shop.ann)["items"]] == [shop.anns.pk]
    unknown = call("get_book", shop.ann, pk=shop.bens.pk)
    assert is_not_found(unknown, "book", shop.bens.pk)
    assert call("update_book", shop.ann, pk=shop.bens.pk, title="mine") == unknown
    assert call("get_book", shop.ann, pk=10**12) == re.sub(rf"\b{shop.bens.pk}\b", str(10**12), unknown)
    assert Book.objects.get(pk=shop.bens.pk).title == "ben's"


def test_routers_say_where_rows_are_read_and_written(shop: Shop, settings: Any) -> None:
    asked = []

    class Router:
        def db_for_read(self, model: Any, **hints: Any) -> str | None:
            asked.append(("read", model))
            return "default" if model is Book else None

        def db_for_write(self, model: Any, **hints: Any) -> str | None:
            asked.append(("write", model))
            return "default" if model is Book else None

    publish()
    settings.DATABASE_ROUTERS = [Router(), *settings.DATABASE_ROUTERS]
    call("list_books", shop.ann)
    assert ("read", Book) in asked
    assert ("write", Book) not in asked
    call("update_book", shop.ann, pk=shop.anns.pk, pages=3)
    assert ("write", Book) in asked


@pytest.mark.parametrize(
    ("model", "members", "facts"),
    [
        (Book, {}, ["no fields"]),
        (Book, {"fields": "__all__"}, ["fields", "a list of"]),
        (Book, {"fields": ("titel",)}, [" titel", " Tools ", "method"]),
        (Book, {"fields": ("title",), "read_only": ("price",)}, ["read_only", " price"]),
        (Book, {"fields": ("title",), "filters": ("title__regex",)}, ["'title__regex'", "'regex'", "get_queryset"]),
        (Book, {"fields": ("title",), "filters": ("titel",)}, ["'titel'", "no field"]),
        (Book, {"fields": ("title",), "filters": ("price__icontains",)}, ["'price__icontains'", "'icontains'"]),
        (Book, {"fields": ("title",), "filters": ("details",)}, ["'details'", "JSON type"]),
        (Book, {"fields": ("title",), "ordering": ("rank",)}, ["ordered", " rank"]),
        (Book, {"fields": ("title",), "ordering_fields": ("tags",)}, ["ordered", " tags"]),
        (Book, {"fields": ("title",), "filters": ("limit",)}, ["'limit'", "limit__exact"]),
        (Book, {"fields": ("title",), "operations": ("delete",)}, ["operation 'delete'", "list, get, create, update"]),
        (Tag, {"fields": ("is_secret",), "operations": ("create",)}, ["primary key", "new_object"]),
        (Cover, {"fields": ("image",), "operations": ("create",)}, [" image ", "FileField", "read_only"]),
        (Cover, {"fields": ("thumbnail",), "read_only": ("thumbnail",)}, [" thumbnail ", "BinaryField", "method"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_published_is_refused_where_it_is_declared(
    model: Any, members: dict[str, Any], facts: list[str]
) -> None:
    with pytest.raises(InvalidDeclaration, match=rf"'{model._meta.label}' \(.*\.Tools\)") as refused:
        register(model)(type("Tools", (ModelTools,), members))
    assert [fact for fact in facts if fact not in str(refused.value)] == []
