"""Makes tools' functions from functions that take the cleaned data of a form or a serializer."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from asgiref.sync import sync_to_async

from mcp_app.catalogue.schema import signature
from mcp_app.catalogue.schema.signature import Context
from mcp_app.tools import ToolContext


def with_cleaned(
    function: Callable[..., Any], clean: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> Callable[..., Any]:
    """Return a tool's function that passes the result of `clean` to `function`.

    The returned function takes all arguments and the context. It has the name, the return
    annotation and the attributes of `function`, so that Django's decorators still apply. Raises
    ValueError if `function` takes more than one parameter besides its context.
    """
    annotations = signature.annotations_of(function)
    parameters = dict(inspect.signature(function).parameters)
    context_parameter = signature.take_context(parameters, annotations, Context)
    if len(parameters) != 1:
        raise ValueError("besides its context it must take one parameter: the cleaned data")
    [data_parameter] = parameters

    def passed(data: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        return {data_parameter: data, **({context_parameter: context} if context_parameter else {})}

    def called(arguments: dict[str, Any], context: ToolContext) -> Any:
        return function(**passed(clean(arguments), context))

    async def called_async(arguments: dict[str, Any], context: ToolContext) -> Any:
        return await function(**passed(await sync_to_async(clean)(arguments), context))

    made = called_async if inspect.iscoroutinefunction(function) else called
    made.__module__, made.__name__, made.__qualname__ = function.__module__, function.__name__, function.__qualname__
    made.__dict__.update(function.__dict__)
    made.__annotations__.pop("return")
    if "return" in annotations:
        made.__annotations__["return"] = annotations["return"]
    return made
