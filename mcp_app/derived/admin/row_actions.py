"""Actions of a ModelAdmin on several rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from mcp_app.catalogue.errors import ToolError
from mcp_app.derived import arguments, form_fields, model_fields
from mcp_app.derived.admin.admin_calls import AdminCall, AnyModelAdmin, describing_request, not_found

MAX_ROWS: Final = 100
_WITH_A_PAGE: Final = "delete_selected"
"""Django's own action. It asks for a confirmation, which delete has too."""


@dataclass(frozen=True, slots=True)
class RowAction:
    """An action of a ModelAdmin."""

    name: str
    function: Callable[..., Any]
    description: str
    """With `%(verbose_name)s` or `%(verbose_name_plural)s`, as Django's."""

    @classmethod
    def of(cls, made: Any) -> "RowAction":
        """Return an action of Django's, which is a tuple before Django 6.1."""
        if isinstance(made, tuple):
            return cls(made[1], made[0], str(made[2]))
        return cls(made.name, made.func, str(made.plural_description))


def find_action(model_admin: AnyModelAdmin, name: str) -> RowAction:
    """Return an action of a ModelAdmin. Raises ValueError if it cannot be published."""
    if name == _WITH_A_PAGE:
        raise ValueError(f"{name} asks for a confirmation on a page; publish delete")
    found = _stated_actions(model_admin)
    if name not in found:
        others = ", ".join(sorted(found.keys() - {_WITH_A_PAGE})) or "none"
        raise ValueError(f"it has no action {name!r} of its list; it has {others}")
    return found[name]


def _stated_actions(model_admin: AnyModelAdmin) -> dict[str, RowAction]:
    """Return all actions of a ModelAdmin's list, by name."""
    stated = [model_admin.get_action(each) for each in model_admin.actions or ()]
    made = [*model_admin.get_actions(describing_request()).values(), *(each for each in stated if each is not None)]
    return {action.name: action for action in map(RowAction.of, made)}


def action_schema(model_admin: AnyModelAdmin) -> dict[str, Any]:
    """Return the schema of the arguments of an action."""
    keys = model_fields.key_of(model_admin.model).many(minItems=1, maxItems=MAX_ROWS, uniqueItems=True)
    return form_fields.object_schema({"pks": keys}, ["pks"])


def posted_by_action(model_admin: AnyModelAdmin, name: str, given: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the admin's page would post, because an action may read it."""
    kind = model_fields.key_of(model_admin.model)
    keys = [str(kind.write(key)) for key in _keys(model_admin, given)]
    return [("action", name), ("index", "0"), *((ACTION_CHECKBOX_NAME, key) for key in keys)]


def _keys(model_admin: AnyModelAdmin, given: dict[str, Any]) -> list[Any]:
    keys: list[Any] = arguments.read({"pks": model_fields.key_of(model_admin.model).many()}, given)["pks"]
    return keys


def run_action(call: AdminCall, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Run an action on rows.

    Raises `ToolError` if the caller may not run it, if a row does not exist for the caller, or if
    the action answers with a page or a file.
    """
    model_admin, request = call.model_admin, call.request
    actions: dict[str, Any] = model_admin.get_actions(request)
    if not call.may_view_some or name not in actions:
        raise ToolError(_("You may not run this action."))
    keys = _keys(model_admin, given)
    rows = model_admin.get_queryset(request).filter(pk__in=keys)
    present = set(rows.values_list("pk", flat=True))
    if missing := [key for key in keys if key not in present]:
        raise not_found(call.model, ", ".join(map(str, missing)))
    response = RowAction.of(actions[name]).function(model_admin, request, rows)
    content = _content(response) if isinstance(response, HttpResponseBase) else None
    result = {"rows": len(present), "messages": call.messages.texts()}
    return result if content is None else {**result, "content": content}


def _content(response: Any) -> str | None:
    """Return the text of an action's response, or `None` if it only leads to another page."""
    if 300 <= response.status_code < 400:
        return None
    if response.streaming:
        if (file := getattr(response, "file_to_stream", None)) is not None:
            file.close()  # closing the response would end a request, and its database connections
        raise ToolError(_("This action returns a file, which a tool cannot return."))
    if not getattr(response, "is_rendered", True) or "html" in response.headers.get("Content-Type", ""):
        raise ToolError(_("This action shows a page, which a tool cannot show."))
    try:
        return str(response.text)
    except UnicodeDecodeError as error:
        raise ToolError(_("This action returns a file, which a tool cannot return.")) from error
