"""The ModelForm behind `create` and `update`: Django's validation for some of a row's fields.

Fields that were not given keep their values. They take part in checks of several fields: in the
form's and model's `clean`, in uniqueness, and in constraints.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import models
from django.forms.models import apply_limit_choices_to_to_formfield, modelform_factory

from mcp_app.derived import arguments

ModelFormClass: TypeAlias = "type[forms.ModelForm[Any]]"
RelatedQueryset: TypeAlias = Callable[[Any], models.QuerySet[Any]]
"""Takes the field of a relation and returns the rows that it may refer to."""


class PartialModelForm(forms.ModelForm):  # type: ignore[type-arg]  # not at run time
    """Takes the values of some fields, for an existing or a new row."""

    def __init__(self, data: Mapping[str, Any], instance: models.Model, related: RelatedQueryset) -> None:
        super().__init__(data=dict(data), instance=instance)
        arguments.keep_only(self, data)
        for name, field in self.fields.items():
            if isinstance(field, forms.ModelChoiceField):
                own, rows = field.queryset, related(instance._meta.get_field(name))
                if own is not None and isinstance(self, AuthoredArgumentsForm):
                    rows = rows.filter(pk__in=own.using(rows.db).values("pk"))
                field.queryset = rows
                apply_limit_choices_to_to_formfield(field)

    def add_error(self, field: str | None, error: Any) -> None:
        """Report errors of fields that were not given as errors of the whole form."""
        found = error if isinstance(error, ValidationError) else ValidationError(error)
        by_field = found.error_dict if hasattr(found, "error_dict") else {field: found.error_list}
        for name, problems in by_field.items():
            if name is None or name in self.fields or name == NON_FIELD_ERRORS:
                super().add_error(None if name == NON_FIELD_ERRORS else name, problems)
            else:
                said = [f"{name}: {message}" for problem in problems for message in problem.messages]
                super().add_error(None, said)

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # django-stubs leave it out
        for name in self.fields.keys() - self.errors.keys():
            field = self.instance._meta.get_field(name)
            # Django allows null for a blank JSONField because no HTML form can produce it. The
            # database does not.
            if isinstance(field, models.JSONField) and not field.null and getattr(self.instance, name) is None:
                self.add_error(name, field.error_messages["null"])

    def validate_unique(self) -> None:
        """Check uniqueness and constraints with all fields.

        Django leaves out the fields that were not given.
        """
        for check in (self.instance.validate_unique, self.instance.validate_constraints):
            try:
                check(exclude=set(self.errors))
            except ValidationError as error:
                self.add_error(None, error)


class AuthoredArgumentsForm(PartialModelForm):
    """A `PartialModelForm` for an author's form.

    The author's `clean` may also read the fields that were not given.
    """

    def clean(self) -> dict[str, Any]:
        fields = (field.name for field in self.instance._meta.concrete_fields if field.editable)
        not_given = {name: getattr(self.instance, name, None) for name in fields if name not in self.data}
        self.cleaned_data = {**not_given, **self.cleaned_data}
        cleaned = super().clean()
        self.cleaned_data = self.cleaned_data if cleaned is None else cleaned
        return {name: value for name, value in self.cleaned_data.items() if name in self.fields}


def form_class(model: type[models.Model], form: ModelFormClass, names: Sequence[str]) -> type[PartialModelForm]:
    """Create the form for these fields, based on the author's `form`.

    Raises Django's FieldError.
    """
    authored = form is not forms.ModelForm
    base = type(form.__name__, (AuthoredArgumentsForm, form), {}) if authored else PartialModelForm
    return cast("type[PartialModelForm]", modelform_factory(model, form=base, fields=list(names)))
