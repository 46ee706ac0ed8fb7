"""`viewset_tools`: the actions of a viewset as tools, each dispatched by DRF itself."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import mcp_types
from django.utils.text import camel_case_to_spaces
from django.utils.translation import gettext

from mcp_app.catalogue.errors import InvalidTool, ToolError
from mcp_app.catalogue.schema import signature
from mcp_app.derived import kinds, model_fields
from mcp_app.derived.drf import dispatch, serializer_fields
from mcp_app.derived.drf.serializer_fields import JSONSchema, UnusableSerializerError
from mcp_app.derived.names import joined
from mcp_app.tools import ToolContext, tool

_STANDARD: Final = {
    "list": ("get", False, "list", "List {many}."),
    "retrieve": ("get", True, "get", "Get one {one}."),
    "create": ("post", False, "create", "Create a {one}."),
    "update": ("put", True, "replace", "Replace a {one}: fields that are not given are emptied."),
    "partial_update": ("patch", True, "update", "Update a {one}: fields that are not given are kept."),
    "destroy": ("delete", True, "delete", "Delete a {one}."),
}
"""DRF's actions: HTTP method, whether they apply to one row, and the name and description of their
tools."""
_READING: Final = frozenset({"get", "head", "options"})
KeyReader: TypeAlias = Callable[[str], Mapping[str, Any] | None]
NO_KEYWORDS: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Action:
    name: str
    method: str
    is_detail: bool
    options: Mapping[str, Any]
    """The options of its `@action` decorator, such as `permission_classes`."""
    tool_name: str
    description: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool that is ready to be registered."""

    function: Callable[..., Any]
    options: Mapping[str, Any]
    """The options of `tool`."""

    @property
    def name(self) -> str:
        return str(self.options["name"])


def viewset_tools(
    viewset: Any, /, *, actions: Iterable[str] | Mapping[str, Mapping[str, Any]] = ("list", "retrieve")
) -> Any:
    """Offer the actions of a viewset as tools.

    Return the viewset, so that `viewset_tools` without `actions` can be used as a decorator.

    Example::

        viewset_tools(BookViewSet, actions=["list", "retrieve", "create"])

    - `actions`: names of DRF's actions and of the viewset's own, or a mapping from these names to
      options of `tool` to override. An action of the viewset's own takes the row's key if it is for
      one row, and the fields of the `serializer_class` in its `@action`, unless it only reads.

    The tools are named `list_books`, `get_book`, `create_book`, `update_book` (partial_update),
    `replace_book` (update), `delete_book` and `<action>_book`.

    The viewset checks the caller's permissions when a tool is called. To hide a tool, set its
    `permissions`. Raises `InvalidTool` if an action cannot be offered.
    """
    add_tools(offers_of(viewset, _words(viewset), named_options(actions)))
    return viewset


def named_options(names: Iterable[str] | Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the options of `tool` for each name."""
    return dict(names) if isinstance(names, Mapping) else {name: {} for name in names}


def offers_of(
    viewset: Any,
    words: tuple[str, str],
    actions: Mapping[str, Mapping[str, Any]],
    initial: Mapping[str, Mapping[str, Any]] = NO_KEYWORDS,
    read_key: KeyReader | None = None,
) -> list[Offer]:
    """Return the tools of a viewset's actions, not registered yet.

    - `words`: the singular and plural of its rows, from which names and descriptions are made.
    - `actions`: the names of the actions, with the options of `tool` for each.
    - `initial`: keyword arguments of `as_view` for each action, besides those that the call needs.
    - `read_key`: returns the keyword arguments that a URL would have for a row's key, or `None` if
      no URL has this key.

    Raises `InvalidTool` if an action cannot be offered.
    """
    location = f"{viewset.__module__}.{viewset.__qualname__}"
    found = []
    for name, differing in actions.items():
        try:
            action = _action(viewset, name, words)
            function, schema = _function(viewset, action, location, initial.get(name, NO_KEYWORDS), read_key)
        except UnusableSerializerError as error:
            raise InvalidTool(f"The action {name!r} of {location} cannot be offered: {error}.") from error
        options = {
            "name": action.tool_name,
            "description": action.description,
            "annotations": _hints(action),
            "input_schema": schema,
        }
        found.append(Offer(function, {**options, **differing}))
    return found


def add_tools(offers: Iterable[Offer]) -> None:
    """Register the tools."""
    for offer in offers:
        tool(**offer.options)(offer.function)


def _action(viewset: Any, name: str, words: tuple[str, str]) -> _Action:
    one, many = words
    method = getattr(viewset, name, None)
    if method is None:
        raise UnusableSerializerError("the viewset has no such action")
    about = signature.description_of(method) if not method.__module__.startswith("rest_framework.") else ""
    if name in _STANDARD:
        verb, is_detail, word, said = _STANDARD[name]
        described = said.format(one=one, many=many)
        named = f"{word}_{joined(many if name == 'list' else one)}"
        return _Action(name, verb, is_detail, {}, named, "\n\n".join(filter(None, [described, about])))
    if not hasattr(method, "mapping"):
        raise UnusableSerializerError("it is neither a standard DRF action nor decorated with @action")
    verb = next(verb for verb, mapped in method.mapping.items() if mapped == name)
    described = about or f"{name.replace('_', ' ').capitalize()}: {one}."
    return _Action(name, verb, method.detail, method.kwargs, f"{name}_{joined(one)}", described)


def _function(
    viewset: Any, action: _Action, location: str, keywords: Mapping[str, Any], read_key: KeyReader | None
) -> tuple[Callable[..., Any], JSONSchema]:
    """Return the tool's function and the schema of its arguments."""
    initial = {**action.options, **keywords, "detail": action.is_detail, **dispatch.OURS}
    view = viewset.as_view({action.method: action.name}, **initial)
    described = viewset(**initial)
    described.action, described.request, described.format_kwarg = action.name, None, None
    described.swagger_fake_view = True  # marks a view of a schema generator
    body = _body_schema(described, action) if _takes_body(action) else {}
    key = _key(described, body) if action.is_detail else None
    query = _query(described) if action.name == "list" else {}
    kwarg, _ = _lookup(viewset)

    def function(arguments: dict[str, Any], context: ToolContext) -> Any:
        given = dict(arguments)
        value = str(given.pop(key[0])) if key else ""
        path = ({kwarg: value} if read_key is None else read_key(value)) if key else {}
        if path is None:
            raise ToolError(gettext("Not found."))
        asked = {name: given.pop(name) for name in query if name in given}
        return dispatch.result_of(view(dispatch.request_for(action.method, context, asked, given), **path))

    function.__module__, _, function.__qualname__ = location.rpartition(".")
    function.__name__ = action.tool_name
    function.__annotations__.pop("return")
    keyed = {} if key is None else {key[0]: key[1]}
    properties = {**keyed, **body.get("properties", {}), **query}
    schema: JSONSchema = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [*keyed, *body.get("required", [])]
    return function, {**schema, "required": required} if required else schema


def _takes_body(action: _Action) -> bool:
    """Return whether an action takes a body.

    One of the viewset's own does if its decorator has a `serializer_class`.
    """
    if action.name in _STANDARD:
        return action.method in ("post", "put", "patch")
    return action.method not in _READING and "serializer_class" in action.options


def _body_schema(view: Any, action: _Action) -> JSONSchema:
    try:
        serializer = view.get_serializer_class()(context={"request": None, "view": view, "format": None})
        return serializer_fields.object_schema(serializer, partial=action.method == "patch")
    except UnusableSerializerError:
        raise
    except Exception as error:
        raise UnusableSerializerError(f"its serializer cannot be made without a request ({error})") from error


def _lookup(view: Any) -> tuple[str, str]:
    """Return the name of the key in the URL, and its field. A `ViewSet` need not have either."""
    field = getattr(view, "lookup_field", None) or "pk"
    return getattr(view, "lookup_url_kwarg", None) or field, field


def _key(view: Any, body: JSONSchema) -> tuple[str, JSONSchema]:
    """Return name and schema of the argument that identifies the row.

    The name is the one in the URL, unless a field of the body has the same name.
    """
    name, lookup_field = _lookup(view)
    if name in body.get("properties", {}):
        name = f"current_{name}"
    model = _model(view)
    if model is None:
        return name, dict(kinds.TEXT.schema)
    field = model._meta.pk if lookup_field == "pk" else model_fields.find(model, lookup_field)
    kind = None if field is None else model_fields.kind_of(field)
    return name, dict((kind or kinds.TEXT).schema)


def _query(view: Any) -> dict[str, JSONSchema]:
    """Return the query parameters that the viewset's filters and pagination accept for a list."""
    sources = [each() for each in getattr(view, "filter_backends", ())]
    if (paginator := getattr(view, "paginator", None)) is not None:
        sources.append(paginator)
    found: dict[str, JSONSchema] = {}
    for source in sources:
        for parameter in getattr(source, "get_schema_operation_parameters", lambda _: [])(view):
            schema = {"type": parameter.get("schema", {}).get("type", "string")}
            said = str(parameter.get("description") or "")
            found[parameter["name"]] = {**schema, "description": said} if said else schema
    return found


def _hints(action: _Action) -> mcp_types.ToolAnnotations:
    if action.method in _READING:
        return mcp_types.ToolAnnotations(read_only_hint=True)
    return mcp_types.ToolAnnotations(destructive_hint=action.name != "create")


def _model(viewset: Any) -> Any:
    queryset = getattr(viewset, "queryset", None)
    return None if queryset is None else queryset.model


def _words(viewset: Any) -> tuple[str, str]:
    """Return the singular and plural of the viewset's rows."""
    model = _model(viewset)
    name = re.sub(r"(?i)(model)?view_?set$", "", viewset.__name__) if model is None else model._meta.object_name
    one = camel_case_to_spaces(name or viewset.__name__)
    return one, f"{one}s"
