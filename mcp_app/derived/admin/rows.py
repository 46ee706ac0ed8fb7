"""One row of a ModelAdmin as JSON: the columns of its list, and the fields of its form."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.admin.utils import NotRelationField, flatten_fieldsets, get_fields_from_path, lookup_field
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.forms import ReadOnlyPasswordHashField
from django.core.exceptions import FieldDoesNotExist, ObjectDoesNotExist
from django.db import models
from django.db.models import Manager, QuerySet

from mcp_app.derived import kinds, model_fields
from mcp_app.derived.admin.admin_calls import AdminCall


def shown(call: AdminCall, row: models.Model) -> dict[str, Any]:
    """Return the fields that the admin's page of a row shows, and its key.

    Relations are shown by their keys, as arguments take them. Passwords are left out.
    """
    model_admin, request = call.model_admin, call.request
    names = flatten_fieldsets(model_admin.get_fieldsets(request, row))
    read_only = list(model_admin.get_readonly_fields(request, row))
    form_fields = model_admin.get_form(request, row).base_fields
    found = {"pk": _key(row)}
    for name in [name for name in names if name in read_only or not _is_hidden(call, name, form_fields)]:
        if not is_password(call.model, name):
            found[_label(name)] = _value(call, row, name)
    return found


def listed(call: AdminCall, rows: Iterable[models.Model]) -> list[dict[str, Any]]:
    """Return the columns of the admin's list for each row, and its key."""
    stated = call.model_admin.get_list_display(call.request)
    columns = [name for name in stated if name != "action_checkbox" and not is_password(call.model, name)]
    return [{"pk": _key(row), **{_label(name): _displayed(call, row, name) for name in columns}} for row in rows]


def is_password(model: type[models.Model], name: Any) -> bool:
    """Return whether a name leads to the password of a user, perhaps through relations."""
    try:
        field: Any = get_fields_from_path(model, name)[-1] if isinstance(name, str) else None
    except (FieldDoesNotExist, NotRelationField):
        return False
    return field is not None and field.name == "password" and issubclass(field.model, AbstractBaseUser)


def _key(row: models.Model) -> Any:
    return model_fields.key_of(type(row)).write(row.pk)


def _label(name: Any) -> str:
    return str(name if isinstance(name, str) else getattr(name, "__name__", name))


def _is_hidden(call: AdminCall, name: Any, form_fields: Mapping[str, forms.Field]) -> bool:
    """Return whether a form's field has no value to show: a password, bytes, or no field of the model."""
    if not isinstance(name, str):
        return False
    field = form_fields.get(name)
    if isinstance(field, ReadOnlyPasswordHashField) or isinstance(getattr(field, "widget", None), forms.PasswordInput):
        return True
    column = model_fields.find(call.model, name)
    return isinstance(column, models.BinaryField) or (field is not None and column is None)


def _value(call: AdminCall, row: models.Model, name: Any) -> Any:
    field = model_fields.find(call.model, name) if isinstance(name, str) else None
    if field is None:
        return _displayed(call, row, name)
    kind = model_fields.kind_of(field)
    if isinstance(field, models.ManyToManyField):
        write = str if kind is None else kind.write
        return [write(key) for key in getattr(row, name).values_list("pk", flat=True)]
    value = getattr(row, field.attname)
    if kind is None or isinstance(field, models.FileField):
        return str(value) or None
    return kind.to_json(value)


def _displayed(call: AdminCall, row: models.Model, name: Any) -> Any:
    """Return what the admin displays, which is a text for related rows."""
    try:
        return plain(lookup_field(name, row, call.model_admin)[2])
    except (ObjectDoesNotExist, FieldDoesNotExist):
        return None


def plain(value: Any) -> Any:
    """Return a value as JSON; as text if JSON has no such type."""
    if value is None or isinstance(value, bool | int | float):
        return value
    for type_, kind in (
        (datetime, kinds.MOMENT),
        (date, kinds.DATE),
        (time, kinds.TIME),
        (timedelta, kinds.DURATION),
        (Decimal, kinds.DECIMAL_TEXT),
        (UUID, kinds.IDENTIFIER),
    ):
        if isinstance(value, type_):
            return kind.write(value)
    if isinstance(value, Manager):
        value = value.all()
    if isinstance(value, list | tuple | set | frozenset | QuerySet):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    return str(value)
