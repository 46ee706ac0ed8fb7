"""The request that the methods of a ModelAdmin receive, with the caller of the tool as its user.

It is made in the worker. It has no session, and Django's middleware does not run. Messages that the
ModelAdmin sends to its user are collected for the tool's result.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlencode

from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import AnonymousUser
from django.contrib.messages.storage.base import BaseStorage
from django.core.exceptions import PermissionDenied
from django.db import models, router
from django.db.models import Value
from django.http import HttpRequest
from django.utils.translation import gettext as _

from mcp_app.catalogue.errors import ToolError
from mcp_app.derived import arguments, model_fields, view_requests
from mcp_app.tools import ToolContext

AnyModelAdmin: TypeAlias = "ModelAdmin[Any]"


class MessageList(BaseStorage):
    """Keeps the messages of one call."""

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Any], bool]:
        return [], True

    def _store(self, messages: Any, response: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return []

    def texts(self) -> list[str]:
        return [str(message) for message in self]


class DescribingUser(AnonymousUser):
    """The user for whom a ModelAdmin is described when its tools are declared. It has all rights."""

    is_active: Any = True
    is_staff: Any = True
    is_superuser: Any = True
    is_authenticated = True  # type: ignore[assignment]  # a property in the base class
    is_anonymous = False  # type: ignore[assignment]

    def resolve_expression(self, *args: Any, **kwargs: Any) -> Value:
        """Let a ModelAdmin make a queryset of the user's rows, which then has none."""
        return Value(None)

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        return True

    def has_perms(self, perm_list: Any, obj: Any = None) -> bool:
        return True

    def has_module_perms(self, module: str) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class AdminCall:
    """One call of a tool: its ModelAdmin, and the request for the caller."""

    model_admin: AnyModelAdmin
    request: Any
    messages: MessageList

    @property
    def model(self) -> type[models.Model]:
        return self.model_admin.model

    @property
    def may_view_some(self) -> bool:
        return bool(self.model_admin.has_view_or_change_permission(self.request))

    def may_view(self, row: Any) -> bool:
        return bool(self.model_admin.has_view_or_change_permission(self.request, row))

    def find(self, given: dict[str, Any]) -> tuple[Any, Any]:
        """Return the row that the argument `pk` names, or `None`, and its key."""
        kind = model_fields.key_of(self.model)
        key = kind.write(arguments.read({"pk": kind}, {"pk": given["pk"]})["pk"])
        return self.model_admin.get_object(self.request, str(key)), key

    def find_permitted(self, given: dict[str, Any], has_permission: Callable[[Any, Any], bool], message: str) -> Any:
        """Return the row that the argument `pk` names.

        Raises `ToolError`: "not found", or `message` if the caller may view the row but `has_permission` refuses it.
        """
        row, key = self.find(given)
        if row is not None and has_permission(self.request, row):
            return row
        if row is not None and self.may_view(row):
            raise ToolError(message)
        raise not_found(self.model, key)

    def lock(self, row: Any) -> None:
        """Lock a row until the transaction ends, if the database supports it."""
        rows = self.model._base_manager.using(router.db_for_write(self.model))
        list(rows.select_for_update().filter(pk=row.pk).values_list("pk"))


def not_found(model: type[models.Model], key: Any) -> ToolError:
    return ToolError(_("There is no %(name)s %(key)s.") % {"name": model._meta.verbose_name, "key": key})


@contextmanager
def admin_call(
    model_admin: AnyModelAdmin, context: ToolContext, posted: Sequence[tuple[str, str]] = ()
) -> Iterator[AdminCall]:
    """Make the request for a call.

    Raises `ToolError` if the caller may not use the admin site, or if the block raises
    PermissionDenied.
    """
    request = view_requests.make_request(
        "POST", context, content=urlencode(posted).encode(), content_type="application/x-www-form-urlencoded"
    )
    request.user = context.user or AnonymousUser()
    request.current_app = model_admin.admin_site.name
    request._messages = MessageList(request)
    try:
        if not request.user.is_authenticated or not model_admin.admin_site.has_permission(request):
            raise PermissionDenied
        yield AdminCall(model_admin, request, request._messages)
    except PermissionDenied as error:
        raise ToolError(str(error) or _("You do not have permission to do this.")) from error


def describing_request() -> Any:
    """Return the request with which a ModelAdmin is described."""
    request = HttpRequest()
    request.method = "GET"
    request.user = DescribingUser()
    return request
