"""The shop's books, published with the options that most tests need."""

from typing import Any

from django.db.models import QuerySet

from mcp_app.model_tools import ModelTools, register
from tests.derived.shop.models import Book

ALL = ("list", "get", "create", "update")


def publish(**members: Any) -> None:
    """Return a `BookTools` with whole rows of the caller's own.

    `members` override its attributes.
    """

    def get_queryset(self: ModelTools, user: Any) -> QuerySet[Book]:
        return Book.objects.filter(owner=user.pk)

    def new_object(self: ModelTools, user: Any) -> Book:
        return Book(owner=user)

    defaults = {
        "fields": (
            "title",
            "author",
            "tags",
            "status",
            "price",
            "published",
            "sold_at",
            "pages",
            "details",
            "changed_at",
        ),
        "filters": ("title__icontains", "author", "tags", "price__gte", "published__year", "sold_at__lt", "status__in"),
        "ordering_fields": ("title", "price"),
        "operations": ALL,
        "get_queryset": get_queryset,
        "new_object": new_object,
    }
    register(Book)(type("BookTools", (ModelTools,), {**defaults, **members}))
