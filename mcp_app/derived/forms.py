"""`form_tool`: a Django form as a tool. Its fields are the arguments.

The function is called with the cleaned data, and only if the form is valid.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django import forms

from mcp_app.catalogue.errors import InvalidTool
from mcp_app.catalogue.schema import signature
from mcp_app.derived import arguments, form_fields
from mcp_app.derived.cleaned import with_cleaned
from mcp_app.derived.kinds import ValueKind
from mcp_app.tools import tool

F = TypeVar("F", bound=Callable[..., Any])


def form_tool(form_class: type[forms.BaseForm], /, **options: Any) -> Callable[[F], F]:
    """Offer a function (plain or `async`) that takes a form's `cleaned_data` as a tool.

    Example::

        @form_tool(ContactForm)
        def contact(data):
            send_mail(data["subject"], data["text"], None, ["office@example.com"])

    The function takes the dictionary, and the `ToolContext` if it has a parameter annotated so. It
    is returned unchanged. The arguments are the form's fields except disabled ones. A field with an
    initial value is optional. The model gets the form's errors. `options` are those of `tool`. The
    default of `description` is the docstring of the function, or else of the form.

    Raises `InvalidTool` if a field cannot be an argument, or the form cannot be created without
    data.
    """

    def decorate(function: F) -> F:
        name = options.get("name", function.__name__)
        try:
            kinds, schema = _read(form_class)
            called = with_cleaned(function, lambda given: _clean(form_class, kinds, given))
        except (ValueError, TypeError) as error:
            location = f"{function.__module__}.{function.__qualname__}"
            raise InvalidTool(f"The tool {name!r} ({location}) cannot be offered: {error}.") from error
        said = signature.description_of(function) or signature.description_of(form_class)
        tool(**{"name": name, "description": said or None, "input_schema": schema, **options})(called)
        return function

    return decorate


def _read(form_class: type[forms.BaseForm]) -> tuple[dict[str, ValueKind], dict[str, Any]]:
    fields = {name: field for name, field in form_class().fields.items() if not field.disabled}
    kinds = {name: form_fields.argument_of(name, field) for name, field in fields.items()}
    required = [name for name, field in fields.items() if form_fields.is_required(field)]
    return kinds, form_fields.object_schema(kinds, required)


def _clean(
    form_class: type[forms.BaseForm], kinds: Mapping[str, ValueKind], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the cleaned data. Raises `InvalidArguments`."""
    values = arguments.read(kinds, given)
    form = form_class(data=values)
    for name, field in form.fields.items():
        if name not in values and (initial := form.get_initial_for_field(field, name)) is not None:
            values[name] = initial
    form.data = values
    arguments.keep_only(form, list(form.fields))
    arguments.check(form)
    cleaned: dict[str, Any] = form.cleaned_data
    return cleaned
