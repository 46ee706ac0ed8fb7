"""A form made of a tool's input schema: its fields are the arguments, what is cleaned is the JSON object of a call.

Owns what is left out and what an empty field means; refuses to judge the arguments: `add_problems` puts what
`catalogue.schema` found beside the fields that it is about.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from mcp_app.admin.argument_fields import EMPTY, MISSING, Anything, Choice, encoded
from mcp_app.admin.argument_kinds import DESCRIPTION_CHARS, help_text, words
from mcp_app.admin.argument_tree import PREFIX, Group, Leaf, read
from mcp_app.catalogue.errors import Problem
from mcp_app.catalogue.schema import dotted
from mcp_app.lifecycle.inert import inert

LABEL_CHARS: Final = 100
PROBLEM_CHARS: Final = 500
_MISSING_CODE: Final = "required"
_REQUIRED: Final = forms.ValidationError(_("This field is required."), code=_MISSING_CODE)


@dataclass
class Section:
    """A part of the form, as Django's admin shows it."""

    name: str | None
    fields: list[str] = field(default_factory=list)
    description: str | None = None


class CallForm(forms.Form):
    """The arguments of one call."""

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The arguments of a valid form."""

    @abstractmethod
    def sections(self) -> list[Section]:
        """The fields in their parts."""

    def is_read(self) -> bool:
        """Whether `arguments` has all that was filled in, be something missing or not."""
        faults = [fault for several in self.errors.as_data().values() for fault in several]
        return self.is_bound and all(fault.code == _MISSING_CODE for fault in faults)

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Say what is wrong beside the field that it is about, or of all."""
        for path, told in problems:
            name, rest = self._place(path)
            said = f"{dotted(rest)}: {told}" if rest else told
            self.add_error(name, inert(said, PROBLEM_CHARS))

    @abstractmethod
    def _place(self, path: tuple[str | int, ...]) -> tuple[str | None, tuple[str | int, ...]]:
        """The field about which a path is, and the rest of it."""


class JSONForm(CallForm):
    """The arguments as one JSON object."""

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
    """The arguments, a field for each. Raises NoFieldsError."""

    def __init__(self, schema: Mapping[str, Any], data: Any = None, arguments: Mapping[str, Any] | None = None) -> None:
        """`arguments`: what is filled in at first; None: the schema's defaults."""
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
        """Raises ValidationError where what was filled in is not what this form asks."""
        known = set(self.fields)
        if any(name.startswith(f"{PREFIX}/") and name not in known for name in self.data):
            raise forms.ValidationError(
                _("The tool has changed since this page was opened: look through its arguments again.")
            )
        self._arguments = self._collected(self._root)

    def shows(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a form filled in with these arguments, and sent back untouched, would send them."""
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
            title = inert(dotted(group.path), LABEL_CHARS) if group.path else None
            described = group.shape.schema.get("description") if group.path else None
            text = words(described, DESCRIPTION_CHARS) if described else None
            if names or first:
                found.append(Section(title, [*first, *names], text))
        return found

    def _add(self, leaf: Leaf) -> None:
        leaf.field.label = inert(leaf.shape.schema.get("title") or leaf.path[-1] or '""', LABEL_CHARS)
        leaf.field.help_text = help_text(leaf.shape, leaf.field, when_empty=leaf.when_empty)
        self.fields[leaf.name] = leaf.field
        self._fields[leaf.path] = leaf.name

    def _fill(self, group: Group, given: Any) -> None:
        """Show these values of a group's members; where none are given, their defaults."""
        for member in group.members:
            is_given = isinstance(given, Mapping)
            value = given.get(member.path[-1], MISSING) if is_given else member.shape.default
            if isinstance(member, Group):
                if member.given is not None:
                    self.initial[member.given] = isinstance(value, Mapping)
                self._fill(member, value)
            else:
                self.initial[member.name] = _shown(member, value, is_given=is_given)

    def _collected(self, group: Group, cleaned: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for member in group.members:
            value = self._group_value(member, cleaned) if isinstance(member, Group) else self._value(member, cleaned)
            if value is not MISSING:
                found[member.path[-1]] = value
        return found

    def _group_value(self, group: Group, cleaned: Mapping[str, Any] | None) -> Any:
        if group.given is None or self._is_given(group, cleaned):
            return self._collected(group, cleaned)
        return group.when_empty

    def _is_given(self, group: Group, cleaned: Mapping[str, Any] | None) -> bool:
        """Ticked, or something in it filled in: nobody fills in what they do not mean to send."""
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


def _box(group: Group) -> forms.BooleanField:
    label = _("Send %(name)s") % {"name": inert(dotted(group.path), LABEL_CHARS)}
    help_text = _("Sent as well where anything below is filled in or changed.")
    return forms.BooleanField(label=label, help_text=help_text, required=False)


def _shown(leaf: Leaf, value: Any, *, is_given: bool) -> Any:
    """What is shown of a value; nothing where the field cannot show it (`ArgumentsForm.shows`)."""
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
    """Whether null is shown as such, and not as an empty field."""
    if isinstance(leaf.field, Choice):
        return encoded(None) in leaf.field.values
    return is_given and isinstance(leaf.field, Anything) and leaf.when_empty is not None
