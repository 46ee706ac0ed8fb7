"""A serializer as a tool: its fields are the arguments, and the model gets its errors."""

from decimal import Decimal
from typing import Any

import pytest
from rest_framework import serializers

from mcp_app.catalogue.errors import InvalidDeclaration
from mcp_app.drf_tools import serializer_tool
from mcp_app.tools import ToolContext
from tests.derived.calling import call


class Line(serializers.Serializer):
    book = serializers.CharField(max_length=5)
    price = serializers.DecimalField(max_digits=5, decimal_places=2)


class Order(serializers.Serializer):
    lines = Line(many=True)
    gift = serializers.BooleanField(default=False)

    def validate(self, attrs: Any) -> Any:
        if not attrs["lines"]:
            raise serializers.ValidationError("Order something.")
        return attrs


def test_the_function_is_called_with_what_the_serializer_validated() -> None:
    taken = []

    @serializer_tool(Order)
    def order(data: dict[str, Any], ctx: ToolContext) -> str:
        """Order books."""
        taken.append(data)
        return ctx.request.tool

    assert call("order", None, lines=[{"book": "Emma", "price": 7.5}]) == "order"
    [data] = taken
    assert (data["lines"][0]["price"], data["gift"]) == (Decimal("7.50"), False)
    told = call("order", None, lines=[{"book": "Emma", "price": 7.5}, {"book": "Zola", "price": "7.505"}])
    assert told.endswith("- lines[1].price: Ensure that there are no more than 2 decimal places.")
    assert call("order", None, lines=[]).endswith("\n- Order something.")
    assert len(taken) == 1


def test_a_serializer_of_many_is_refused() -> None:
    with pytest.raises(InvalidDeclaration, match="has many=True"):

        @serializer_tool(lambda: Order(many=True))
        def order(data: Any) -> str:
            return ""
