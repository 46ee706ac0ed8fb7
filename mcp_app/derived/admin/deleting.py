"""Delete of a ModelAdmin: first a preview of all rows that would be deleted, then the deletion."""

from collections.abc import Iterable
from html import unescape
from itertools import islice
from typing import Any, Final

from django.db import router, transaction
from django.utils.html import strip_tags
from django.utils.safestring import SafeData
from django.utils.translation import gettext as _

from mcp_app.catalogue.errors import ToolError
from mcp_app.derived import form_fields, kinds, model_fields
from mcp_app.derived.admin.admin_calls import AdminCall, AnyModelAdmin
from mcp_app.derived.operations import refusals

MAX_PROTECTED: Final = 50
"""Maximum rows that a preview names as protected."""


def delete_schema(model_admin: AnyModelAdmin) -> dict[str, Any]:
    """Return the schema of the arguments of delete."""
    described = "Without true, nothing is deleted, and the result shows what would be."
    confirm = kinds.BOOLEAN.with_schema(description=described)
    return form_fields.object_schema({"pk": model_fields.key_of(model_admin.model), "confirm": confirm}, ["pk"])


def delete_row(call: AdminCall, given: dict[str, Any]) -> dict[str, Any]:
    """Return a preview; with `confirm`, delete the row with its dependent rows, and log it.

    Raises `ToolError` if the row does not exist for the caller, or must not be deleted.
    """
    model_admin: Any = call.model_admin  # Django passes lists where its stubs expect a queryset
    request = call.request
    with refusals(), transaction.atomic(using=router.db_for_write(call.model)):
        row = _to_delete(call, given)
        if given.get("confirm"):
            call.lock(row)
            row = _to_delete(call, given)  # again: the previous holder of the lock may have deleted the row
        _rows, counts, missing, protected = model_admin.get_deleted_objects([row], request)
        result = {
            "deleted": False,
            "object": str(row),
            "counts": {str(name): count for name, count in dict(counts).items()},
            "protected": list(islice(_texts(protected), MAX_PROTECTED)),
            "missing_permissions": sorted(str(name) for name in missing),
        }
        if not given.get("confirm"):
            return {**result, "messages": call.messages.texts()}
        _check_deletable(result)
        model_admin.log_deletions(request, [row])
        model_admin.delete_model(request, row)
        return {**result, "deleted": True, "messages": call.messages.texts()}


def _to_delete(call: AdminCall, given: dict[str, Any]) -> Any:
    return call.find_permitted(given, call.model_admin.has_delete_permission, _("You may not delete this."))


def _check_deletable(preview: dict[str, Any]) -> None:
    """Raise `ToolError` if rows are protected, or the caller may not delete some of them."""
    if protected := preview["protected"]:
        raise ToolError(_("This cannot be deleted, because other rows need it: %s") % ", ".join(protected))
    if missing := preview["missing_permissions"]:
        raise ToolError(_("You may not delete the rows that depend on it: %s") % ", ".join(missing))


def _texts(protected: Iterable[Any]) -> Iterable[str]:
    """Yield the names of rows, without the links of the admin's page."""
    for each in protected:
        yield unescape(strip_tags(str(each))) if isinstance(each, SafeData) else str(each)
