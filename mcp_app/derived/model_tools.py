"""`ModelTools`: the options of a published model, in the manner of Django's ModelAdmin.

`registration` makes tools from them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from django import forms
from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Q, QuerySet

from mcp_app.auth.principal import EVERYBODY
from mcp_app.catalogue.declaration import Registry
from mcp_app.catalogue.errors import InvalidTool

User: TypeAlias = AbstractBaseUser | AnonymousUser

ACTIONS: Final = {"list": "view", "get": "view", "create": "add", "update": "change"}
"""The operations, each with the action of its Django permission."""


class ModelTools:
    """Tools for the rows of one model. Subclass it, and decorate the class with `register(Model)`.

    One instance serves all calls. An anonymous caller is passed as Django's `AnonymousUser`.

    Example::

        @register(Book)
        class BookTools(ModelTools):
            fields = ["title", "author", "pages"]
            filters = ["author", "title__icontains"]
            operations = ["list", "get", "update"]

            def get_queryset(self, user):
                return super().get_queryset(user).filter(owner=user)
    """

    fields: ClassVar[Sequence[str]] = ()
    """The published members, in order: fields of the model, and methods of this class. Such a
    method takes a row and has a return annotation. Nothing else is published, except the primary
    key as `pk`."""
    read_only: ClassVar[Sequence[str]] = ()
    """Fields that cannot be written. Methods cannot either, nor fields that are not `editable`."""
    filters: ClassVar[Sequence[str]] = ()
    """Django's lookups by which lists can be filtered, such as `author` or `title__icontains`."""
    ordering: ClassVar[Sequence[str]] = ()
    """Default order of lists. If empty, the model's."""
    ordering_fields: ClassVar[Sequence[str]] = ()
    """Fields by which callers may sort lists."""
    operations: ClassVar[Iterable[str] | Mapping[str, Mapping[str, Any]]] = ("list", "get")
    """Names among list, get, create and update, or a mapping from these names to options of `@tool`
    to override: `name`, `permissions`, `scopes`, `queue` …"""
    max_limit: ClassVar[int] = 100
    """Maximum rows in one list."""
    resource: ClassVar[bool] = True
    """Whether rows are also resources, if `get` is among the operations."""
    form: ClassVar["type[forms.ModelForm[Any]]"] = forms.ModelForm
    """A form that validates writes. Its `clean` also gets the fields that were not given."""
    object_permissions: ClassVar[bool] = False
    """Whether `user.has_perm(permission, row)` is required. Django's own backend grants none for
    single rows."""

    def __init__(self, queryset: QuerySet[Any]) -> None:
        self._queryset = queryset
        self.model: type[models.Model] = queryset.model

    def get_queryset(self, user: User) -> QuerySet[Any]:
        """Return the rows that exist for this caller. All others are reported as not found."""
        return self._queryset.all()

    def get_related_queryset(self, user: User, field: Any) -> QuerySet[Any]:
        """Return the rows that a relation may refer to, and that a many-to-many relation shows.

        `field` is the model's field of the relation, such as `Book._meta.get_field("author")`.

        If the rows' model is published, these are the rows that exist for the caller in its
        classes. If the caller may see the rows of some of these classes, only those classes count.
        If the model is not published, these are all rows, as in Django's forms. The field's
        `limit_choices_to` always applies.
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
        """Return whether the caller may `view` or `change` this row, or `add` this unsaved one.

        By default it is `True`, unless `object_permissions` is set. Then the user must have the
        permission for this row, except to `add`.
        """
        if not self.object_permissions or action == "add":
            return True
        has_perm = getattr(user, "has_perm", None)
        return has_perm is not None and bool(has_perm(self.permission(action), obj))

    def new_object(self, user: User) -> Any:
        """Return the unsaved row that `create` fills.

        Override it to set values that callers cannot, such as an owner.
        """
        return self.model()

    def save(self, user: User, obj: Any) -> None:
        """Save a valid row, inside the transaction of its create or update."""
        obj.save()

    def permission(self, action: str) -> str:
        """Return Django's permission for an action on the model, such as `shop.view_book`.

        `action` (str): `view`, `add` or `change`.
        """
        options = self.model._meta
        return f"{options.app_label}.{get_permission_codename(action, options)}"


class Published:
    """The registration of a model with one class."""

    def __init__(self, tools: ModelTools) -> None:
        self.tools = tools
        self.model = tools.model
        self.view_access = EVERYBODY
        """The rights that a caller must have to see a row."""
        self.location = f"{type(tools).__module__}.{type(tools).__qualname__}"


published_models: Registry[Published] = Registry("model", InvalidTool)
"""By the module and name of their classes."""
