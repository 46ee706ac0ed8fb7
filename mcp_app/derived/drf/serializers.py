"""`serializer_tool`: a serializer as a tool. Its fields are the arguments."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mcp_app.catalogue.errors import InvalidTool
from mcp_app.catalogue.schema import signature
from mcp_app.derived import arguments
from mcp_app.derived.cleaned import with_cleaned
from mcp_app.derived.drf import dispatch, serializer_fields
from mcp_app.tools import tool

F = TypeVar("F", bound=Callable[..., Any])


def serializer_tool(serializer_class: Any, /, **options: Any) -> Callable[[F], F]:
    """Offer a function (plain or `async`) that takes a serializer's `validated_data` as a tool.

    Example::

        @serializer_tool(BookSerializer)
        def add_book(data):
            return Book.objects.create(**data).pk

    The function takes the dictionary, and the `ToolContext` if it has a parameter annotated so. It
    is returned unchanged. The model gets the serializer's errors. `options` are those of `tool`.
    The serializer is created with `data` only, and has no request in its context.

    Raises `InvalidTool` if the serializer's fields cannot be arguments.
    """

    def decorate(function: F) -> F:
        name = options.get("name", function.__name__)
        try:
            schema = serializer_fields.object_schema(serializer_class())
            called = with_cleaned(function, lambda given: _validated(serializer_class, given))
        except (ValueError, TypeError) as error:
            location = f"{function.__module__}.{function.__qualname__}"
            raise InvalidTool(f"The tool {name!r} ({location}) cannot be offered: {error}.") from error
        said = signature.description_of(function)
        tool(**{"name": name, "description": said or None, "input_schema": schema, **options})(called)
        return function

    return decorate


def _validated(serializer_class: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the validated data. Raises `InvalidArguments`."""
    serializer = serializer_class(data=dict(given))
    if not serializer.is_valid():
        raise arguments.unfit(list(dict.fromkeys(dispatch.lines_of(serializer.errors))))
    validated: dict[str, Any] = serializer.validated_data
    return validated
