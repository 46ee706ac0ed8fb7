"""A form made from a tool's input schema: its fields are the arguments, and it cleans to the JSON object of a call.

The form decides which arguments are left out and what an empty field means. It does not validate the arguments:
`add_problems` shows the errors that `catalogue.arguments` found beside their fields.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from mcp_app.admin.arguments.fields import EMPTY, MISSING, Anything, Choice, encoded
from mcp_app.admin.arguments.kinds import DESCRIPTION_CHARS, help_text, words
from mcp_app.admin.arguments.tree import PREFIX, ArgumentGroup, Leaf, read
from mcp_app.catalogue.arguments import dotted
from mcp_app.catalogue.errors import Problem
from mcp_app.safe_text import safe_text

LABEL_CHARS: Final = 100
PROBLEM_CHARS: Final = 500
_MISSING_CODE: Final = "required"
_REQUIRED: Final = forms.ValidationError(_("This field is required."), code=_MISSING_CODE)


@dataclass
class Section:
    """A fieldset of the form, as Django's admin shows it."""

    name: str | None
    fields: list[str] = field(default_factory=list)
    description: str | None = None


class CallForm(forms.Form):
    """Base class of the forms for the arguments of a call."""

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a valid form."""

    @abstractmethod
    def sections(self) -> list[Section]:
        """Return the fields in their fieldsets."""

    def is_read(self) -> bool:
        """Return whether `arguments` has all of the input, even if an argument is missing."""
        faults = [fault for several in self.errors.as_data().values() for fault in several]
        return self.is_bound and all(fault.code == _MISSING_CODE for fault in faults)

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Show each error beside its field, or above the form."""
        for path, problem in problems:
            name, rest = self._place(path)
            message = f"{dotted(rest)}: {problem}" if rest else problem
            self.add_error(name, safe_text(message, PROBLEM_CHARS))

    @abstractmethod
    def _place(self, path: tuple[str | int, ...]) -> tuple[str | None, tuple[str | int, ...]]:
        """Return the field that a path belongs to, and the rest of the path."""


class JSONForm(CallForm):
    """A form for the arguments as one JSON object."""

    json = Anything(label=_("Arguments"), help_text=_("One JSON object."), required=False)

    def __init__(self, data: Any = None, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, initial={"json": Anything().shown(arguments or {})})
        self.fields["json"].widget.attrs["rows"] = 10

    @property
    def arguments(self) -> dict[str, Any]:
        given: dict[str, Any] = self.cleaned_data["json"]
        return given

    def clean_json(self) -> Any:
        given = self.cleaned_data["json"]
        if given is EMPTY:
            return {}
        if not isinstance(given, dict):
            raise forms.ValidationError(_("The arguments are one JSON object: {…}"))
        return given

    def sections(self) -> list[Section]:
        return [Section(None, ["json"])]

    def _place(self, path: tuple[str | int, ...]) -> tuple[str | None, tuple[str | int, ...]]:
        return "json", path


class ArgumentsForm(CallForm):
    """A form with a field for each argument. Raises NoFieldsError."""

    def __init__(self, schema: Mapping[str, Any], data: Any = None, arguments: Mapping[str, Any] | None = None) -> None:
        """`arguments` are the initial values; `None` for the schema's defaults."""
        super().__init__(data)
        self._root = read(schema)
        self._fields: dict[tuple[str | int, ...], str] = {}
        for leaf in self._root.leaves():
            self._add(leaf)
        for group in self._root.groups():
            if group.given is not None:
                self.fields[group.given] = _box(group)
                self._fields[group.path] = group.given
        self._fill(self._root, arguments)

    @property
    def arguments(self) -> dict[str, Any]:
        return self._arguments

    def clean(self) -> None:
        """Check that the input has the form of the arguments. Raises `ValidationError`."""
        known = set(self.fields)
        if any(name.startswith(f"{PREFIX}/") and name not in known for name in self.data):
            raise forms.ValidationError(
                _("The tool has changed since this page was opened. Check its arguments again.")
            )
        self._arguments = self._collected(self._root)

    def shows(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether a form with these arguments would send the same arguments if nothing is changed."""
        try:
            sent = {name: each.clean(self.get_initial_for_field(each, name)) for name, each in self.fields.items()}
        except forms.ValidationError:
            return False
        return encoded(self._collected(self._root, sent)) == encoded(dict(arguments))

    def sections(self) -> list[Section]:
        found = []
        for group in self._root.groups():
            names = [leaf.name for leaf in group.members if isinstance(leaf, Leaf)]
            first = [group.given] if group.given else []
            title = safe_text(dotted(group.path), LABEL_CHARS) if group.path else None
            described = group.shape.schema.get("description") if group.path else None
            text = words(described, DESCRIPTION_CHARS) if described else None
            if names or first:
                found.append(Section(title, [*first, *names], text))
        return found

    def _add(self, leaf: Leaf) -> None:
        leaf.field.label = safe_text(leaf.shape.schema.get("title") or leaf.path[-1] or '""', LABEL_CHARS)
        leaf.field.help_text = help_text(leaf.shape, leaf.field, when_empty=leaf.when_empty)
        self.fields[leaf.name] = leaf.field
        self._fields[leaf.path] = leaf.name

    def _fill(self, group: ArgumentGroup, given: Any) -> None:
        """Set the initial values of a group's members, or their defaults if there are none."""
        for member in group.members:
            is_given = isinstance(given, Mapping)
            value = given.get(member.path[-1], MISSING) if is_given else member.shape.default
            if isinstance(member, ArgumentGroup):
                if member.given is not None:
                    self.initial[member.given] = isinstance(value, Mapping)
                self._fill(member, value)
            else:
                self.initial[member.name] = _shown(member, value, is_given=is_given)

    def _collected(self, group: ArgumentGroup, cleaned: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for member in group.members:
            value = (
                self._group_value(member, cleaned)
                if isinstance(member, ArgumentGroup)
                else self._value(member, cleaned)
            )
            if value is not MISSING:
                found[member.path[-1]] = value
        return found

    def _group_value(self, group: ArgumentGroup, cleaned: Mapping[str, Any] | None) -> Any:
        if group.given is None or self._is_given(group, cleaned):
            return self._collected(group, cleaned)
        return group.when_empty

    def _is_given(self, group: ArgumentGroup, cleaned: Mapping[str, Any] | None) -> bool:
        """Return whether the group is ticked or one of its members has input."""
        assert group.given is not None
        if cleaned is not None:
            return bool(cleaned[group.given])
        if self.cleaned_data.get(group.given):
            return True
        inside = {leaf.name for leaf in group.leaves()} | {each.given for each in group.groups() if each is not group}
        return not inside.isdisjoint(self.changed_data)

    def _value(self, leaf: Leaf, cleaned: Mapping[str, Any] | None) -> Any:
        values = self.cleaned_data if cleaned is None else cleaned
        value = values.get(leaf.name, EMPTY)
        if value is not EMPTY:
            return value
        if leaf.required and leaf.when_empty is MISSING and cleaned is None and leaf.name not in self.errors:
            self.add_error(leaf.name, _REQUIRED)
        return leaf.when_empty

    def _place(self, path: tuple[str | int, ...]) -> tuple[str | None, tuple[str | int, ...]]:
        for length in range(len(path), 0, -1):
            if (name := self._fields.get(path[:length])) is not None:
                return name, path[length:]
        return None, path


def _box(group: ArgumentGroup) -> forms.BooleanField:
    label = _("Send %(name)s") % {"name": safe_text(dotted(group.path), LABEL_CHARS)}
    help_text = _("Always sent if a field below is filled in or changed.")
    return forms.BooleanField(label=label, help_text=help_text, required=False)


def _shown(leaf: Leaf, value: Any, *, is_given: bool) -> Any:
    """Return the value to show, or an empty one if the field cannot show it (`ArgumentsForm.shows`)."""
    made = leaf.field
    if value is MISSING and isinstance(made, Choice):
        value = made.first
    if value is MISSING or (value is None and not _says_null(leaf, is_given=is_given)):
        return None
    try:
        return made.shown(value)
    except (TypeError, ValueError):
        return None


def _says_null(leaf: Leaf, *, is_given: bool) -> bool:
    """Return whether null is shown as null, and not as an empty field."""
    if isinstance(leaf.field, Choice):
        return encoded(None) in leaf.field.values
    return is_given and isinstance(leaf.field, Anything) and leaf.when_empty is not None
