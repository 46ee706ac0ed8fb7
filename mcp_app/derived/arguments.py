"""Passes a tool's arguments to forms, and forms' errors to the model: one line for each problem."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.forms import BaseForm

from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.derived.form_fields import ArgumentWidget
from mcp_app.derived.kinds import ValueKind


def read(kinds: Mapping[str, ValueKind], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as Python values. Raises `InvalidArguments`."""
    values, lines = dict[str, Any](), list[str]()
    for name, argument in arguments.items():
        try:
            values[name] = kinds[name].read(argument)
        except ValueError as error:
            lines.append(f"{name}: {error}")
    if lines:
        raise unfit(lines)
    return values


def keep_only(form: BaseForm, given: Collection[str]) -> None:
    """Make a form clean only the fields that were given, without prefix and widgets."""
    form.prefix = None
    for name in [name for name in form.fields if name not in given]:
        del form.fields[name]
    for field in form.fields.values():
        field.widget = ArgumentWidget()


def check(form: BaseForm) -> None:
    """Raise `InvalidArguments` if the form has errors, with a line for each."""
    if not form.is_valid():
        raise unfit(_lines(form.errors.as_data()))


def unfit(lines: Collection[str]) -> InvalidArguments:
    return InvalidArguments("\n".join(["The arguments do not fit this tool:", *(f"- {line}" for line in lines)]))


def _lines(errors: Mapping[str, Collection[ValidationError]]) -> list[str]:
    return list(dict.fromkeys(_each(errors)))


def _each(errors: Mapping[str, Collection[ValidationError]]) -> Iterator[str]:
    for name, problems in errors.items():
        for message in (message for problem in problems for message in problem.messages):
            yield message if name == NON_FIELD_ERRORS else f"{name}: {message}"
