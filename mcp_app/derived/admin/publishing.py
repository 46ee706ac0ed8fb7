"""`admin_tools`: the models of an admin site as tools, by the rights and forms of their ModelAdmins."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import mcp_types
from django.contrib import admin
from django.contrib.admin.options import BaseModelAdmin
from django.contrib.auth import get_permission_codename
from django.core.exceptions import FieldError
from django.db import models

from mcp_app.catalogue.errors import InvalidTool
from mcp_app.derived import form_fields, model_fields, names
from mcp_app.derived.admin import deleting, editing, listing, row_actions
from mcp_app.derived.admin.admin_calls import AdminCall, AnyModelAdmin, admin_call, describing_request
from mcp_app.tools import ToolContext, tool

Model: TypeAlias = type[models.Model]
Names: TypeAlias = Iterable[str] | Mapping[str, Mapping[str, Any]]
AdminOperation: TypeAlias = Callable[[AdminCall, dict[str, Any]], dict[str, Any]]

READ: Final = "read"
OPERATIONS: Final = (READ, "add", "change", "delete")
_READS: Final = mcp_types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ADDS: Final = mcp_types.ToolAnnotations(destructive_hint=False, open_world_hint=False)
_CHANGES: Final = mcp_types.ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False)
_DESTROYS: Final = mcp_types.ToolAnnotations(destructive_hint=True, open_world_hint=False)
_NO_ACTIONS: Final[Mapping[Model, Names]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AdminTool:
    """A tool of a ModelAdmin that is ready to be registered."""

    name: str
    description: str
    permission: str
    """The name of the permission that a caller needs to see it, such as `view`."""
    annotations: mcp_types.ToolAnnotations
    schema: dict[str, Any]
    operation: AdminOperation
    options: Mapping[str, Any]
    """Options of `tool` that the author stated."""
    action: str = ""
    """The name of the ModelAdmin's action that it runs."""


def admin_tools(
    site: admin.AdminSite,
    models: Iterable[Model] | Mapping[Model, Names],
    /,
    *,
    actions: Mapping[Model, Names] = _NO_ACTIONS,
    prefix: str = "",
) -> None:
    """Offer models of an admin site as tools, with the rights and forms of their ModelAdmins.

    Example::

        admin_tools(
            admin.site,
            {Author: ["read"], Book: ["read", "add", "change", "delete"]},
            actions={Book: ["mark_as_sold"]},
        )

    - `site` (`AdminSite`): the admin site with which the models are registered.
    - `models`: models to read, or a mapping from models to what is published of each: names among
      `read`, `add`, `change` and `delete`, or a mapping from these names to options of `tool`.
    - `actions` (dict): models, each with names of actions of its ModelAdmin, or a mapping from
      these names to options of `tool`. Actions are never published otherwise.
    - `prefix` (str): what the names of the tools begin with, such as `admin_`.

    The tools are named `list_books` and `get_book` (read), `add_book`, `change_book`, `delete_book`
    and `<action>_books`. The first call of `delete_book` returns a preview; the row is deleted if
    `confirm` is true.

    The ModelAdmin receives a request whose user is the caller. Its methods decide as in the admin:
    the site's `has_permission`, `has_view_permission` and the other permissions, `get_queryset`,
    `get_form`, `get_readonly_fields`, `save_model`, `delete_model`, and the log. A tool is hidden
    from callers without Django's permission for it, unless the ModelAdmin has its own method for
    this permission, or the options have `permissions`. Inlines are not published.

    Raises `InvalidTool`, and registers nothing, if a model is not registered with the site, or if
    something of it cannot be published.
    """
    published = _named(models)
    offers: list[tuple[AnyModelAdmin, AdminTool]] = []
    for model in list(dict.fromkeys([*published, *actions])):
        model_admin = _admin_of(site, model)
        try:
            wanted = _options("models", published.get(model, ()))
            made = list(_operations(model_admin, wanted))
            made += _actions(model_admin, _options("actions", actions.get(model, ())))
        except Exception as error:  # of the ModelAdmin's own methods
            is_plain = isinstance(error, ValueError | FieldError)
            reason = (str(error) if is_plain else f"{type(error).__name__}: {error}").rstrip(".")
            location = _location(model_admin)
            raise InvalidTool(
                f"The admin of {model._meta.label} ({location}) cannot be published: {reason}."
            ) from error
        offers.extend((model_admin, each) for each in made)
    for model_admin, offer in offers:
        _register(model_admin, offer, prefix)


def _named(stated: Any) -> Mapping[Model, Names]:
    if isinstance(stated, type):
        raise InvalidTool("models of admin_tools must be a list of models, not a single model.")
    return stated if isinstance(stated, Mapping) else dict.fromkeys(stated, (READ,))


def _options(parameter: str, stated: Names) -> dict[str, Mapping[str, Any]]:
    if isinstance(stated, str):
        raise ValueError(f"{parameter} must have a list of names for it, not a single name")
    return dict(stated) if isinstance(stated, Mapping) else {name: {} for name in stated}


def _admin_of(site: admin.AdminSite, model: Model) -> AnyModelAdmin:
    if not site.is_registered(model):
        admin.autodiscover()  # this app may be ready before Django's admin is
    if not site.is_registered(model):
        raise InvalidTool(f"The model {model._meta.label} is not registered with the admin site {site.name!r}.")
    return site.get_model_admin(model)


def _location(model_admin: AnyModelAdmin) -> str:
    return f"{type(model_admin).__module__}.{type(model_admin).__qualname__}"


def _operations(model_admin: AnyModelAdmin, wanted: Mapping[str, Mapping[str, Any]]) -> Iterator[AdminTool]:
    if unknown := sorted(wanted.keys() - set(OPERATIONS)):
        raise ValueError(f"there is no operation {unknown[0]!r}; there are {', '.join(OPERATIONS)}")
    one, many = names.words_of(model_admin.model)
    for name in (name for name in OPERATIONS if name in wanted):
        options = wanted[name]
        if name == READ:
            yield from _reading(model_admin, one, many, options)
        elif name == "add":
            schema = editing.add_schema(model_admin)
            yield AdminTool(f"add {one}", f"Add a {one}.", "add", _ADDS, schema, editing.add_row, options)
        elif name == "change":
            said = f"Change a {one}: fields whose arguments are given are changed, the others are kept."
            schema = editing.change_schema(model_admin)
            yield AdminTool(f"change {one}", said, "change", _CHANGES, schema, editing.change_row, options)
        else:
            said = (
                f"Delete a {one}, with the rows that depend on it. The first call shows what would be "
                "deleted; call again with confirm=true to delete it."
            )
            schema = deleting.delete_schema(model_admin)
            yield AdminTool(f"delete {one}", said, "delete", _DESTROYS, schema, deleting.delete_row, options)


def _reading(model_admin: AnyModelAdmin, one: str, many: str, options: Mapping[str, Any]) -> Iterator[AdminTool]:
    if "name" in options:
        raise ValueError("read makes two tools, which cannot have the same name; use prefix")
    arguments = listing.list_of(model_admin, describing_request()).arguments
    said = f"List {many}, filtered by the arguments."
    schema = form_fields.object_schema(arguments, [])
    yield AdminTool(f"list {many}", said, "view", _READS, schema, listing.list_rows, options)
    schema = form_fields.object_schema({"pk": model_fields.key_of(model_admin.model)}, ["pk"])
    said = f"Get one {one} by its primary key."
    yield AdminTool(f"get {one}", said, "view", _READS, schema, listing.get_row, options)


def _actions(model_admin: AnyModelAdmin, wanted: Mapping[str, Mapping[str, Any]]) -> Iterator[AdminTool]:
    one, many = names.words_of(model_admin.model)
    for name, options in wanted.items():
        action = row_actions.find_action(model_admin, name)
        said = action.description % {"verbose_name": one, "verbose_name_plural": many}
        allowed: Sequence[str] = getattr(action.function, "allowed_permissions", ())
        permission = allowed[0] if len(allowed) == 1 else "view"
        schema = row_actions.action_schema(model_admin)
        run: AdminOperation = partial(_run, name)
        yield AdminTool(f"{name} {many}", f"{said.rstrip('.')}.", permission, _DESTROYS, schema, run, options, name)


def _run(name: str, call: AdminCall, given: dict[str, Any]) -> dict[str, Any]:
    return row_actions.run_action(call, name, given)


def _register(model_admin: AnyModelAdmin, offer: AdminTool, prefix: str) -> None:
    def function(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        posted = row_actions.posted_by_action(model_admin, offer.action, arguments) if offer.action else ()
        with admin_call(model_admin, context, posted) as call:
            return offer.operation(call, arguments)

    name = prefix + names.joined(offer.name)
    function.__module__, _, function.__qualname__ = _location(model_admin).rpartition(".")
    function.__name__ = name
    defaults = {
        "name": name,
        "description": offer.description,
        "permissions": _permissions(model_admin, offer.permission),
        "annotations": offer.annotations,
        "input_schema": offer.schema,
    }
    tool(**{**defaults, **offer.options})(function)


def _permissions(model_admin: AnyModelAdmin, action: str) -> tuple[str, ...]:
    """Return Django's permission for an action, or none if the ModelAdmin decides in its own way."""
    method = f"has_{action}_permission"
    if getattr(type(model_admin), method, None) is not getattr(BaseModelAdmin, method, object):
        return ()
    options = model_admin.opts
    return (f"{options.app_label}.{get_permission_codename(action, options)}",)
