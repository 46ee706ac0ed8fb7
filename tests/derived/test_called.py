"""Published models are called over the wire and run by the runner, like any tool."""

from typing import Any

import pytest
from django.db.models import QuerySet

from mcp_app.model_tools import ModelTools, register
from tests.derived.calling import is_not_found
from tests.derived.conftest import Shop
from tests.derived.shop.models import Book


@pytest.mark.django_db(databases="__all__")
def test_a_row_is_made_and_found_by_its_owner_alone(shop: Shop, mcp_client: Any) -> None:
    @register(Book)
    class BookTools(ModelTools):
        fields = ("title", "author", "price")
        operations = ("get", "create")

        def get_queryset(self, user: Any) -> QuerySet[Book]:
            return Book.objects.filter(owner=user.pk)

        def new_object(self, user: Any) -> Book:
            return Book(owner=user)

    mcp_client.force_login(shop.ann)
    made = mcp_client.call("create_book", title="Emma", author=shop.anns.author_id, price=7.5).structured
    assert made == {"pk": made["pk"], "title": "Emma", "author": shop.anns.author_id, "price": "7.50"}
    assert mcp_client.call("get_book", pk=str(made["pk"])).structured["title"] == "Emma"  # as JSON text
    refused = mcp_client.call("create_book", title="Emma", author=shop.anns.author_id, price=7.5)
    assert refused.is_error
    assert "already exists" in refused.text
    mcp_client.force_login(shop.ben)
    refused = mcp_client.call("get_book", pk=made["pk"])
    assert refused.is_error
    assert is_not_found(refused.text, "book", made["pk"])
