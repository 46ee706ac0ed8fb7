"""A Django form as a tool: its fields are the arguments, and the model gets its errors."""

import re
from decimal import Decimal
from typing import Any

import pytest
from django import forms

from mcp_app.catalogue import catalogue
from mcp_app.catalogue.errors import InvalidDeclaration
from mcp_app.catalogue.registry import registered_tools
from mcp_app.form_tools import form_tool
from mcp_app.tools import ToolContext
from tests.derived.calling import call, principal
from tests.derived.conftest import Shop
from tests.derived.shop.models import Author, Book


class OrderForm(forms.Form):
    """Order books."""

    prefix = "order"

    author = forms.ModelChoiceField(Author.objects.all())
    books = forms.ModelMultipleChoiceField(Book.objects.all(), required=False)
    copies = forms.TypedChoiceField(choices=[(1, "One"), (2, "Two")], coerce=int, initial=1)
    wraps = forms.MultipleChoiceField(choices=[("p", "Paper"), ("b", "Box")], required=False)
    limit = forms.DecimalField(max_digits=5, decimal_places=2, min_value=0, required=False)
    until = forms.DateTimeField(required=False)
    email = forms.EmailField(help_text="For the bill")
    agreed = forms.BooleanField()
    gift = forms.NullBooleanField(required=False)
    extras = forms.JSONField(required=False)
    version = forms.CharField(disabled=True, initial="v1")

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).lower()

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.cleaned_data.get("copies") == 2 and not self.cleaned_data.get("books"):
            raise forms.ValidationError("Two copies of what?")
        return cleaned


@pytest.fixture(params=["plain", "async"])
def taken(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The data that the function of the tool `order` was called with."""
    found: list[dict[str, Any]] = []
    if request.param == "plain":

        @form_tool(OrderForm, title="Order")
        def order(data: dict[str, Any], ctx: ToolContext) -> dict[str, str]:
            found.append(data)
            return {"tool": ctx.request.tool}

    else:

        @form_tool(OrderForm, name="order")
        async def order_async(data: dict[str, Any]) -> dict[str, str]:
            found.append(data)
            return {"tool": "order"}

    return found


def schema() -> dict[str, Any]:
    found = catalogue.find("order", principal(None))
    assert found is not None
    wire: dict[str, Any] = found.wire()["inputSchema"]
    return wire


def order(**arguments: Any) -> Any:
    return call("order", None, **arguments)


def test_its_fields_are_the_arguments(taken: Any) -> None:
    assert schema()["required"] == ["author", "email", "agreed"]
    assert schema()["properties"] == {
        "author": {"type": "integer"},
        "books": {"type": ["array", "null"], "items": {"type": "integer"}, "uniqueItems": True},
        "copies": {"enum": [1, 2], "default": 1, "description": "1: One; 2: Two."},
        "wraps": {
            "type": "array",
            "items": {"enum": ["p", "b"]},
            "uniqueItems": True,
            "description": "p: Paper; b: Box.",
        },
        "limit": {"type": ["string", "number", "null"], "pattern": "^[+-]?[0-9]+(\\.[0-9]+)?$", "minimum": 0},
        "until": {"type": ["string", "null"], "format": "date-time"},
        "email": {
            "type": "string",
            "format": "email",
            "minLength": 1,
            "maxLength": 320,
            "description": "For the bill.",
        },
        "agreed": {"type": "boolean", "const": True},
        "gift": {"type": ["boolean", "null"]},
        "extras": {},
    }
    assert registered_tools()["order"].description == "Order books."


def test_the_function_is_called_with_what_the_form_cleaned(shop: Shop, taken: list[dict[str, Any]]) -> None:
    given = {"author": shop.anns.author_id, "email": "A@B.example", "agreed": True}
    assert order(**given) == {"tool": "order"}
    assert order(**given, books=[shop.bens.pk], copies=2, limit="9.50", gift=False, extras={"a": [1]}) == {
        "tool": "order"
    }
    few, many = taken
    assert (few["author"], few["email"], few["copies"]) == (shop.anns.author, "a@b.example", 1)
    assert (list(few["books"]), few["wraps"], few["until"], few["gift"]) == ([], [], None, None)
    assert (list(many["books"]), many["copies"], many["limit"]) == ([shop.bens], 2, Decimal("9.50"))
    assert (many["gift"], many["extras"], many["version"]) == (False, {"a": [1]}, "v1")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"email": "nobody"}, "- email: Enter a valid email address."),
        ({"author": 10**6}, "- author: Select a valid choice."),
        ({"copies": 3}, "- copies: "),
        ({"copies": 2}, r"- Two copies of what\?"),
        ({"agreed": False}, "- agreed: "),
        ({"version": "v2"}, 'must not have "version"'),
        ({"until": "soon"}, "- until: .*date and time"),
        ({"limit": 1000}, "- limit: Ensure that there are no more than 3 digits before the decimal point."),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_not_valid_is_said_by_field(shop: Shop, taken: Any, given: dict[str, Any], complaint: str) -> None:
    told = order(**{"author": shop.anns.author_id, "email": "a@b.example", "agreed": True, **given})
    assert told.splitlines()[1].startswith("- ")
    assert re.search(complaint, told)
    assert taken == []


class Upload(forms.Form):
    file = forms.FileField()


class Mine(forms.Form):
    def __init__(self, user: Any, **options: Any) -> None:
        super().__init__(**options)


@pytest.mark.parametrize(("form", "why"), [(Upload, r"\bfile\b.* FileField\b"), (Mine, "'user'")])
def test_a_form_that_no_arguments_can_fill_is_refused(form: Any, why: str) -> None:
    with pytest.raises(InvalidDeclaration, match=rf"tool 'send' \(.*\.send\) .*{why}"):

        @form_tool(form)
        def send(data: dict[str, Any]) -> str:
            return ""


def test_the_function_takes_the_data_alone() -> None:
    with pytest.raises(InvalidDeclaration, match="one parameter"):
        form_tool(forms.Form)(lambda data, more: "")


def test_choices_that_a_function_gives_are_those_of_the_call() -> None:
    asked = ["Sunday"]

    class Ticket(forms.Form):
        day = forms.ChoiceField(choices=lambda: [*zip(asked, asked, strict=True)])

    @form_tool(Ticket)
    def book_ticket(data: dict[str, Any]) -> str:
        return f"for {data['day']}"

    asked.append("Monday")  # after the tool was declared
    assert call("book_ticket", None, day="Monday") == "for Monday"
    assert "- day: Select a valid choice." in call("book_ticket", None, day="Tuesday")
