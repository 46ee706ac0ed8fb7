"""Forms made from schemas, and filled in as a browser does it."""

from typing import Any
from urllib.parse import urlencode

from django.forms import CheckboxInput, Select, SelectMultiple
from django.http import QueryDict

from mcp_app.admin.arguments.form import ArgumentsForm

TEXT = {"type": "string"}
X = "argument/x"


def form_of(schema: dict[str, Any], filled: dict[str, Any] | None = None, **options: Any) -> ArgumentsForm:
    """Return the form of one property `x` or of an object schema. With `filled`, it is bound as a browser sends it."""
    root = schema if "properties" in schema else {"type": "object", "properties": {"x": schema}}
    return ArgumentsForm(root, None if filled is None else posted(filled), **options)


def posted(fields: dict[str, Any]) -> QueryDict:
    return QueryDict(urlencode(fields, doseq=True))


def untouched(form: ArgumentsForm) -> dict[str, Any]:
    """Return the data that a browser sends for an unchanged form."""
    sent: dict[str, Any] = {}
    for name, field in form.fields.items():
        value = form[name].value()
        if isinstance(field.widget, CheckboxInput):
            sent |= {name: "on"} if value else {}
        elif isinstance(field.widget, SelectMultiple):
            sent[name] = value or []
        elif isinstance(field.widget, Select) and value is None:
            sent[name] = next(iter(field.widget.choices))[0]
        else:
            sent[name] = "" if value is None else str(value).replace("\n", "\r\n")
    return sent


def assert_faults(form: ArgumentsForm, expected: dict[str, tuple[str, ...]]) -> None:
    """Check that exactly these fields have an error, one each, and that it contains these facts."""
    assert form.errors.keys() == expected.keys()
    for name, facts in expected.items():
        [told] = form.errors[name]
        assert all(fact in told for fact in facts), told


def arguments(schema: dict[str, Any], filled: dict[str, Any]) -> dict[str, Any]:
    form = form_of(schema, filled)
    assert form.is_valid(), form.errors
    return form.arguments
