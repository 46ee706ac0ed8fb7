"""What an author says of a published model: `ModelTools`, in the shape of Django's ModelAdmin.

Owns the defaults. Refuses to know how tools are made of it: `registration` does that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from django import forms
from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Q, QuerySet

from mcp_app.auth.access import EVERYBODY
from mcp_app.catalogue.declaration import Registry
from mcp_app.catalogue.errors import InvalidTool

User: TypeAlias = AbstractBaseUser | AnonymousUser

ACTIONS: Final = {"list": "view", "get": "view", "create": "add", "update": "change"}
"""The operations, each with the action of Django's permission for it."""


class ModelTools:
    """Tools for the rows of one model. Subclass it, and decorate with `register(Model)`; one instance serves all calls.

    The caller's `user` is Django's AnonymousUser where there is none.
    """

    fields: ClassVar[Sequence[str]] = ()
    """What is published, in this order: fields of the model, and methods of this class that take a row and say by their
    annotation what they return. Nothing that is not named; the primary key is always there, as `pk`."""
    read_only: ClassVar[Sequence[str]] = ()
    """Those of `fields` that are not written. Methods never are, nor what Django does not edit."""
    filters: ClassVar[Sequence[str]] = ()
    """Django's lookups that a list may be narrowed by, as `author` or `title__icontains`."""
    ordering: ClassVar[Sequence[str]] = ()
    """How lists are sorted; without, as the model says."""
    ordering_fields: ClassVar[Sequence[str]] = ()
    """What a caller may sort lists by instead."""
    operations: ClassVar[Iterable[str] | Mapping[str, Mapping[str, Any]]] = ("list", "get")
    """Of list, get, create and update: their names, or for each the options of `@tool` that are to differ: its `name`,
    `permissions`, `scopes`, `queue` …"""
    max_limit: ClassVar[int] = 100
    """Rows in one list."""
    resource: ClassVar[bool] = True
    """Whether rows are resources as well, where `get` is among the operations."""
    form: ClassVar["type[forms.ModelForm[Any]]"] = forms.ModelForm
    """A form whose validation is to hold, its `clean` given the fields that were not."""
    object_permissions: ClassVar[bool] = False
    """Whether a row takes `user.has_perm(permission, row)`. Django's own backend grants none on single rows."""

    def __init__(self, queryset: QuerySet[Any]) -> None:
        self._queryset = queryset
        self.model: type[models.Model] = queryset.model

    def get_queryset(self, user: User) -> QuerySet[Any]:
        """The rows that exist for this caller: all others are not found."""
        return self._queryset.all()

    def get_related_queryset(self, user: User, field: Any) -> QuerySet[Any]:
        """The rows that a relation may name, and of a many-to-many relation shows.

        Where their model is published, those that exist for this caller there, by the classes whose rows they may be
        shown if there are any; else all, as in Django's forms. What the field's `limit_choices_to` says holds in any
        case.
        """
        model = field.remote_field.model
        rows: QuerySet[Any] = model._default_manager.all()
        published = [each for each in published_models.declared.values() if each.model is model]
        if not published:
            return rows
        seen, known = Q(), user if isinstance(user, AbstractBaseUser) else None
        for each in [each for each in published if each.view_access.admits(known)] or published:
            seen |= Q(pk__in=each.tools.get_queryset(user).values("pk"))
        return rows.filter(seen)

    def has_object_permission(self, user: User, action: str, obj: Any) -> bool:
        """Whether the caller may `view` or `change` this row, or `add` this one that is not saved yet."""
        if not self.object_permissions or action == "add":
            return True
        has_perm = getattr(user, "has_perm", None)
        return has_perm is not None and bool(has_perm(self.permission(action), obj))

    def new_object(self, user: User) -> Any:
        """The row that `create` fills: the place for what callers do not say, such as its owner."""
        return self.model()

    def save(self, user: User, obj: Any) -> None:
        """Save a valid row, in the transaction of its create or update."""
        obj.save()

    def permission(self, action: str) -> str:
        """Django's permission for an action on the model, as `app_label.codename`."""
        options = self.model._meta
        return f"{options.app_label}.{get_permission_codename(action, options)}"


class Published:
    """One registration of a model."""

    def __init__(self, tools: ModelTools) -> None:
        self.tools = tools
        self.model = tools.model
        self.view_access = EVERYBODY
        """What it takes to be shown a row."""
        self.location = f"{type(tools).__module__}.{type(tools).__qualname__}"


published_models: Registry[Published] = Registry("model", InvalidTool)
"""By the place of their classes."""
