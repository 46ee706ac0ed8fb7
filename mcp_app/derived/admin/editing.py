"""Add and change of a ModelAdmin, by its own form.

The form is filled as the admin's page fills it: with the initial values, and with the arguments in
their place. So its `clean` sees all fields, and the log names the fields that changed. Inlines are
not filled.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from django import forms
from django.contrib.admin.utils import flatten_fieldsets
from django.db import models, router, transaction
from django.utils.translation import gettext as _

from mcp_app.catalogue.errors import ToolError
from mcp_app.derived import arguments, form_fields, model_fields
from mcp_app.derived.admin import rows
from mcp_app.derived.admin.admin_calls import AdminCall, AnyModelAdmin, describing_request
from mcp_app.derived.kinds import ValueKind
from mcp_app.derived.operations import refusals

AnyModelForm: TypeAlias = "forms.ModelForm[Any]"


def add_schema(model_admin: AnyModelAdmin) -> dict[str, Any]:
    """Return the schema of the arguments of add. Raises ValueError if they cannot be described."""
    form = _blank(model_admin, describing_request(), None)
    fields = _arguments(form, model_admin.model, None)
    for name, field in form.fields.items():
        if name not in fields and not field.disabled and form_fields.is_required(field):
            raise ValueError(f"its form requires {name}, which cannot be an argument")
    required = [name for name in fields if _is_required(model_admin.model, name, form)]
    return form_fields.object_schema(fields, required)


def change_schema(model_admin: AnyModelAdmin) -> dict[str, Any]:
    """Return the schema of the arguments of change: the key, and fields that are all optional."""
    row = model_admin.model()
    row.pk = None  # one with a key would read its relations from the database
    kinds = _arguments(_blank(model_admin, describing_request(), row), model_admin.model, row)
    without_defaults = {
        name: ValueKind({word: value for word, value in kind.schema.items() if word != "default"})
        for name, kind in kinds.items()
    }
    return form_fields.object_schema({"pk": model_fields.key_of(model_admin.model), **without_defaults}, ["pk"])


def add_row(call: AdminCall, given: Mapping[str, Any]) -> dict[str, Any]:
    """Add a row, and log it. Raises `InvalidArguments`, and `ToolError` if the caller may not."""
    if not call.model_admin.has_add_permission(call.request):
        raise ToolError(_("You may not add this."))
    with refusals(), transaction.atomic(using=router.db_for_write(call.model)):
        return _save(call, given, None)


def change_row(call: AdminCall, given: dict[str, Any]) -> dict[str, Any]:
    """Change the given fields of a row, and log it. Raises as `add_row`."""
    values = {name: value for name, value in given.items() if name != "pk"}
    with refusals(), transaction.atomic(using=router.db_for_write(call.model)):
        call.lock(_to_change(call, given))
        row = _to_change(call, given)  # again: the previous holder of the lock may have changed the row
        return _save(call, values, row)


def _to_change(call: AdminCall, given: dict[str, Any]) -> Any:
    return call.find_permitted(given, call.model_admin.has_change_permission, _("You may not change this."))


def _save(call: AdminCall, given: Mapping[str, Any], row: Any) -> dict[str, Any]:
    """Validate and save as the admin's page does, with the same methods in the same order."""
    model_admin: AnyModelAdmin = call.model_admin
    request, is_new = call.request, row is None
    form: Any = _filled(call, given, row)
    arguments.check(form)
    saved = model_admin.save_form(request, form, change=not is_new)
    model_admin.save_model(request, saved, form, not is_new)
    model_admin.save_related(request, form, [], not is_new)
    message = model_admin.construct_change_message(request, form, [], is_new)
    (model_admin.log_addition if is_new else model_admin.log_change)(request, saved, message)
    stored = model_admin.get_object(request, str(saved.pk))
    shown = {"pk": model_fields.key_of(call.model).write(saved.pk)}
    if stored is not None and call.may_view(stored):
        shown = rows.shown(call, stored)
    return {"row": shown, "messages": call.messages.texts()}


def _filled(call: AdminCall, given: Mapping[str, Any], row: Any) -> AnyModelForm:
    """Return the form with the arguments. Raises `InvalidArguments`."""
    blank = _blank(call.model_admin, call.request, row)
    kinds = _arguments(blank, call.model, row)
    if unknown := [name for name in given if name not in kinds]:
        raise arguments.unfit([f"{name}: {_('You cannot set this field.')}" for name in unknown])
    data = {**_initial_data(blank), **arguments.read(kinds, given)}
    form: AnyModelForm = _form_class(call.model_admin, call.request, row)(data, {}, instance=row)
    _simplify(form)
    _keep_related(form, given)
    return form


def _keep_related(form: AnyModelForm, given: Mapping[str, Any]) -> None:
    """Make related rows that are not given valid, also those that the form does not offer the caller."""
    for name, field in form.fields.items():
        if not isinstance(field, forms.ModelMultipleChoiceField) or form.instance.pk is None or name in given:
            continue
        if model_fields.find(type(form.instance), name) is not None:
            field.queryset = getattr(form.instance, name).all()


def _form_class(model_admin: AnyModelAdmin, request: Any, row: Any) -> Any:
    fields = flatten_fieldsets(model_admin.get_fieldsets(request, row))
    # A row without key only describes the form, so `get_form` must not ask for its permission.
    is_change = row is not None and row.pk is not None
    return model_admin.get_form(request, row, change=is_change, fields=fields)


def _blank(model_admin: AnyModelAdmin, request: Any, row: Any) -> AnyModelForm:
    """Return the form that the admin's page shows before its user changes anything."""
    made = _form_class(model_admin, request, row)
    initial = {"initial": model_admin.get_changeform_initial_data(request)} if row is None else {"instance": row}
    form: AnyModelForm = made(**initial)
    _simplify(form)
    return form


def _simplify(form: AnyModelForm) -> None:
    """Make a form take one value for each field, without HTML."""
    for name, field in list(form.fields.items()):
        if type(field) is forms.SplitDateTimeField:  # the admin's field for date and time
            form.fields[name] = forms.DateTimeField(
                label=field.label,
                required=field.required,
                initial=field.initial,
                help_text=field.help_text,
                disabled=field.disabled,
                validators=field.validators,
            )
        elif isinstance(field, forms.MultiValueField) or _is_binary(form, name):
            if not (form.instance._state.adding and form_fields.is_required(field)):
                del form.fields[name]  # so that the row keeps its value
        else:
            field.show_hidden_initial = False  # or each change would name the field in the log
    arguments.keep_only(form, list(form.fields))


def _is_binary(form: AnyModelForm, name: str) -> bool:
    return isinstance(model_fields.find(type(form.instance), name), models.BinaryField)


def _arguments(form: AnyModelForm, model: type[models.Model], row: Any) -> dict[str, ValueKind]:
    """Return the types of the fields that arguments can set. Files and the key cannot be set."""
    found = dict[str, ValueKind]()
    for name, field in form.fields.items():
        column = model_fields.find(model, name)
        if field.disabled or (row is not None and getattr(column, "primary_key", False)):
            continue
        if isinstance(column, models.BinaryField):
            continue
        try:
            kind = form_fields.argument_of(name, field)
        except form_fields.UnusableFieldError:
            continue
        found[name] = kind.with_schema(**({} if column is None else model_fields.limits_of(column)))
    return found


def _is_required(model: type[models.Model], name: str, form: AnyModelForm) -> bool:
    return form_fields.is_required(form.fields[name]) and form.get_initial_for_field(form.fields[name], name) is None


def _initial_data(form: AnyModelForm) -> dict[str, Any]:
    """Return the values of a form before any change, as its fields clean them. Files stay as they are."""
    fields = {name: field for name, field in form.fields.items() if not isinstance(field, forms.FileField)}
    return {name: _cleanable(field, form.get_initial_for_field(field, name)) for name, field in fields.items()}


def _cleanable(field: forms.Field, value: Any) -> Any:
    """Return an initial value as the field cleans it: keys of rows, JSON as text."""
    if isinstance(field, forms.DateTimeField):  # in local time, an hour at the end of summer is ambiguous
        return value
    return field.prepare_value(value)
