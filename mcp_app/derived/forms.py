"""`form_tool`: a Django form as a tool. Its fields are the arguments, its errors what the model is told.

The function is called with what the form cleaned, and only where the form is valid.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django import forms

from mcp_app.catalogue import signature
from mcp_app.catalogue.errors import InvalidTool
from mcp_app.derived import arguments, form_fields
from mcp_app.derived.cleaned import with_cleaned
from mcp_app.derived.kinds import Kind
from mcp_app.tools import tool

F = TypeVar("F", bound=Callable[..., Any])


def form_tool(form_class: type[forms.BaseForm], /, **options: Any) -> Callable[[F], F]:
    """Offer a function (plain or `async`) of a form's `cleaned_data` as a tool; the function itself is returned.

    It takes the dictionary and, where it has a parameter annotated so, the `ToolContext`. The arguments are the form's
    fields, as far as they are not disabled; one with an initial value need not be given. `options`: those of `tool`.

    Raises `InvalidTool` where the form's fields cannot be arguments, or the form cannot be made without any.
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


def _read(form_class: type[forms.BaseForm]) -> tuple[dict[str, Kind], dict[str, Any]]:
    fields = {name: field for name, field in form_class().fields.items() if not field.disabled}
    kinds = {name: _kind(name, field) for name, field in fields.items()}
    required = [name for name, field in fields.items() if form_fields.is_required(field)]
    return kinds, form_fields.object_schema(kinds, required)


def _kind(name: str, field: forms.Field) -> Kind:
    """What need not be given may be null as well."""
    kind = form_fields.kind_of(name, field)
    nullable = not field.required and not isinstance(field, forms.NullBooleanField | forms.MultipleChoiceField)
    return kind.or_null() if nullable and "type" in kind.schema else kind


def _clean(form_class: type[forms.BaseForm], kinds: Mapping[str, Kind], given: Mapping[str, Any]) -> dict[str, Any]:
    """Raises `InvalidArguments`."""
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
