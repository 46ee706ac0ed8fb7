"""`register`: makes tools and a resource template from a `ModelTools` class."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import mcp_types
from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Manager, QuerySet
from pydantic import WithJsonSchema

from mcp_app.auth.principal import Access, missing_scopes
from mcp_app.conf import DEFAULT_ENDPOINT
from mcp_app.derived import form_fields, kinds, layout, model_resources, operations
from mcp_app.derived.layout import MAX_OFFSET, Layout
from mcp_app.derived.model_tools import ACTIONS, ModelTools, Published, published_models
from mcp_app.derived.names import joined, words_of
from mcp_app.derived.operations import ModelCaller
from mcp_app.tools import ToolContext, tool

T = TypeVar("T", bound=type[ModelTools])
Operation: TypeAlias = Callable[[Layout, ModelCaller, Mapping[str, Any]], dict[str, Any]]

_OPERATIONS: Final[Mapping[str, Operation]] = {
    "list": operations.list_rows,
    "get": operations.get_row,
    "create": operations.create_row,
    "update": operations.update_row,
}
_HINTS: Final = {
    "list": mcp_types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    "get": mcp_types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    "create": mcp_types.ToolAnnotations(destructive_hint=False, open_world_hint=False),
    "update": mcp_types.ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False),
}


def register(source: type[models.Model] | Manager[Any] | QuerySet[Any], /) -> Callable[[T], T]:
    """Publish a model, or the rows of a queryset, with the decorated subclass of `ModelTools`.

    Example::

        @register(Book)
        class BookTools(ModelTools):
            fields = ["title", "author"]

    - `source`: a model, whose default manager then supplies the rows, a manager or a queryset.

    It registers the tools `list_books`, `get_book`, `create_book` and `update_book`, if they are
    among the operations. Each requires Django's permission to view, add or change, unless
    `operations` overrides `permissions`. With `get`, rows are also resources,
    `model://app.book/{pk}`.

    The decorator returns the class. Raises `InvalidTool` if the model cannot be published.
    """

    def decorate(tools_class: T) -> T:
        published = Published(tools_class(_rows_of(source)))
        with published_models.explain(published.model._meta.label, published.location):
            _publish(published)
        published_models.add(published.location, published)
        return tools_class

    return decorate


def _rows_of(source: Any) -> QuerySet[Any]:
    if isinstance(source, type) and issubclass(source, models.Model):
        return source._default_manager.all()
    rows: QuerySet[Any] = source.all()
    return rows


def _publish(published: Published) -> None:
    tools = published.tools
    options = _options(tools)
    if "create" in options and not _makes_keys(tools):
        raise ValueError(
            f"nothing sets the primary key of a new row of {tools.model._meta.label}; set it in new_object"
        )
    published.view_access = _view_access(tools, options)
    made = layout.of(tools, published.view_access)
    for operation in options:
        _add_tool(made, operation, published.location, options[operation])
    if tools.resource and "get" in options:
        model_resources.add(made, published.location, _access(tools, "get", options["get"]))


def _makes_keys(tools: ModelTools) -> bool:
    """Return whether new rows get a key, since callers cannot set it."""
    key: Any = tools.model._meta.pk
    is_made = isinstance(key, models.AutoField) or key.has_default() or key.db_default is not models.NOT_PROVIDED
    is_parents = key.remote_field is not None and key.remote_field.parent_link
    authored = type(tools)
    return (
        is_made
        or is_parents
        or authored.new_object is not ModelTools.new_object
        or authored.save is not ModelTools.save
    )


def _options(tools: ModelTools) -> dict[str, Mapping[str, Any]]:
    """Return the options of `@tool` for each operation."""
    stated = tools.operations
    if isinstance(stated, str):
        raise ValueError("operations must be a list of names, not a single name")
    options = dict(stated) if isinstance(stated, Mapping) else {name: {} for name in stated}
    if unknown := sorted(options.keys() - ACTIONS.keys()):
        raise ValueError(f"there is no operation {unknown[0]!r}; there are {', '.join(ACTIONS)}")
    return {name: options[name] for name in ACTIONS if name in options}


def _access(tools: ModelTools, operation: str, options: Mapping[str, Any]) -> Access:
    permissions = options.get("permissions", (tools.permission(ACTIONS[operation]),))
    return Access(
        tuple(permissions),
        tuple(options.get("groups", ())),
        tuple(options.get("scopes", ())),
        tuple(options.get("endpoints", (DEFAULT_ENDPOINT,))),
    )


def _view_access(tools: ModelTools, options: Mapping[str, Mapping[str, Any]]) -> Access:
    """Return the rights to see a row.

    They are those of `get`, else of `list`, else Django's view permission.
    """
    for operation in ("get", "list"):
        if operation in options:
            return _access(tools, operation, options[operation])
    endpoints = [name for each in options.values() for name in each.get("endpoints", (DEFAULT_ENDPOINT,))]
    return _access(tools, "get", {"endpoints": endpoints})


def _add_tool(made: Layout, operation: str, location: str, options: Mapping[str, Any]) -> None:
    name, description = _words(made.tools, operation)
    tools = made.tools
    output = WithJsonSchema(_output_schema(made, operation))
    work = _OPERATIONS[operation]

    def function(arguments: dict[str, Any], context: ToolContext) -> Any:
        return work(made, _caller(made, context), arguments)

    function.__annotations__["return"] = Annotated[dict[str, Any], output]
    function.__module__, _, function.__qualname__ = location.rpartition(".")
    function.__name__ = name
    defaults = {
        "name": name,
        "description": description,
        "permissions": (tools.permission(ACTIONS[operation]),),
        "annotations": _HINTS[operation],
        "input_schema": _input_schema(made, operation),
    }
    tool(**{**defaults, **options})(function)


def _caller(made: Layout, context: ToolContext) -> ModelCaller:
    user, access = context.user, made.view_access
    is_here = context.request.endpoint in access.endpoints
    may_view = is_here and access.admits(user) and not missing_scopes(access.scopes, context.scopes)
    return ModelCaller(user or AnonymousUser(), may_view)


def _words(tools: ModelTools, operation: str) -> tuple[str, str]:
    """Return a tool's name and description, untranslated."""
    one, many = words_of(tools.model)
    described = {
        "list": f"List {many} that the caller may see, filtered by the arguments.",
        "get": f"Get one {one} by its primary key.",
        "create": f"Create a {one}.",
        "update": f"Update a {one}: fields whose arguments are given are changed, the others are kept.",
    }
    about = (type(tools).__doc__ or "").strip()
    name = joined(f"{operation} {many if operation == 'list' else one}")
    return name, f"{described[operation]}\n\n{about}".strip()


def _input_schema(made: Layout, operation: str) -> dict[str, Any]:
    if operation == "list":
        return form_fields.object_schema(_list_arguments(made), [])
    if operation == "get":
        return form_fields.object_schema({"pk": made.key}, ["pk"])
    if operation == "create":
        return form_fields.object_schema(made.writable, list(made.required))
    without_defaults = {
        name: kinds.ValueKind({word: value for word, value in kind.schema.items() if word != "default"})
        for name, kind in made.writable.items()
    }
    return form_fields.object_schema({"pk": made.key, **without_defaults}, ["pk"])


def _list_arguments(made: Layout) -> dict[str, kinds.ValueKind]:
    tools = made.tools
    found = {name: each.kind for name, each in made.filters.items()}
    if tools.ordering_fields:
        names = [name for each in tools.ordering_fields for name in (each, f"-{each}")]
        said = "Sort order; a leading - means descending."
        found["order_by"] = kinds.TEXT.with_schema(enum=names, description=said)
    most = tools.max_limit
    found["limit"] = kinds.INTEGER.with_schema(minimum=1, maximum=most, default=most)
    found["offset"] = kinds.INTEGER.with_schema(minimum=0, maximum=MAX_OFFSET, default=0)
    return found


def _output_schema(made: Layout, operation: str) -> dict[str, Any]:
    row = made.row_schema
    if operation == "get":
        return row
    if operation == "list":
        following = {
            "type": ["integer", "null"],
            "description": "The offset of the next page, or null if there is none.",
        }
        page = {"items": {"type": "array", "items": row}, "next_offset": following}
        return {"type": "object", "properties": page, "required": list(page)}
    return {**row, "required": ["pk"]}
