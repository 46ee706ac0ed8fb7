"""Form fields whose values are JSON: each cleans its input to the value of a tool's argument.

They do not validate a value against its schema; `catalogue.arguments` does. Showing a value and reading it back gives
the same value, unless `represents` returns false.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import ProhibitNullCharactersValidator
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from mcp_app.conf import settings
from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.jsonrpc import Limits, decode, holds_forbidden_text
from mcp_app.safe_text import safe_text

CHOICE_CHARS: Final = 200
_MOST_ROWS: Final = 8
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_JSON_FAULT: Final = _("Enter one JSON value: strings in double quotes, no duplicate members, no number out of range.")


class _Empty:
    """The type of `EMPTY`: the field was left empty."""

    def __repr__(self) -> str:
        return "EMPTY"


EMPTY: Final = _Empty()
MISSING: Final = object()
"""The absence of a JSON value: a field without a default, an argument that is left out."""


class ArgumentField(forms.Field):
    """Cleans its input to a JSON value or to `EMPTY`.

    `required` is for the label and the browser only, because the form checks for missing arguments.
    """

    empty_values: Any = [None, "", EMPTY]

    def shown(self, value: Any) -> Any:
        """Return the widget's value for a JSON value."""
        return value

    def read(self, text: Any) -> Any:
        """Return the JSON value of the input. Raises ValidationError."""
        return text

    def to_python(self, value: Any) -> Any:
        return EMPTY if value in self.empty_values else self.read(value)

    def validate(self, value: Any) -> None:
        """Accept empty input. The form checks for missing arguments, whose object may itself be left out."""

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return whether the input differs from the value that was shown."""
        return encoded(self._lenient(initial)) != encoded(self._lenient(data))

    def represents(self, value: Any) -> bool:
        """Return whether a JSON value stays the same if it is shown and sent back unchanged."""
        try:
            return encoded(self.clean(self.shown(value))) == encoded(value)
        except (ValidationError, TypeError, ValueError):
            return False

    def _lenient(self, value: Any) -> Any:
        try:
            return self.to_python(value)
        except ValidationError:
            return value


class Text(ArgumentField):
    """Text of any number of lines."""

    widget = forms.Textarea(attrs={"rows": 1, "class": "vLargeTextField mcp-grows"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.validators.append(ProhibitNullCharactersValidator())

    def shown(self, value: Any) -> str:
        return str(value)

    def read(self, text: Any) -> Any:
        return _plain(text)

    def represents(self, value: Any) -> bool:
        return isinstance(value, str) and super().represents(value)


class Word(Text):
    """Text of one line, in an HTML input type that has its own keyboard or picker."""

    def __init__(self, *, kind: str, **options: Any) -> None:
        self.kind = kind
        super().__init__(widget=_input(kind), **options)

    def read(self, text: Any) -> Any:
        return str(text).strip()

    def represents(self, value: Any) -> bool:
        if self.kind == "date" and not (isinstance(value, str) and _DATE.fullmatch(value)):
            return False  # a browser would show nothing
        return super().represents(value) and "\n" not in value


class Moment(ArgumentField):
    """A date and time in the site's current time zone, sent with its offset (RFC 3339)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(widget=_input("datetime-local", step=1), **options)

    def shown(self, value: Any) -> str:
        found = parse_datetime(value)
        if found is None:
            raise ValueError("not a date and time")
        local = timezone.localtime(found) if timezone.is_aware(found) else found
        return local.replace(tzinfo=None).isoformat()

    def read(self, text: Any) -> Any:
        value = forms.DateTimeField().to_python(text)
        if value is None:
            return None
        aware = timezone.make_aware(value) if timezone.is_naive(value) else value  # naive if `USE_TZ` is off
        return aware.isoformat().replace("+00:00", "Z")


class Number(ArgumentField):
    """A JSON number. It is a text input, because a browser sends nothing for a number that it cannot parse."""

    def __init__(self, *, whole: bool, **options: Any) -> None:
        self.whole = whole
        super().__init__(widget=_input("text", inputmode="numeric" if whole else "decimal"), **options)

    def shown(self, value: Any) -> str:
        return json.dumps(value)

    def read(self, text: Any) -> Any:
        return number(str(text), whole=self.whole)


class Check(ArgumentField):
    """True or false."""

    widget = forms.CheckboxInput

    def to_python(self, value: Any) -> Any:
        return bool(value)

    def represents(self, value: Any) -> bool:
        return isinstance(value, bool)


class Choice(ArgumentField):
    """One of several JSON values, each with a label."""

    def __init__(self, *, choices: Sequence[tuple[Any, str]], blank: bool, **options: Any) -> None:
        self.values = {encoded(value): value for value, _label in choices}
        self.first = MISSING if blank else next(iter(self.values.values()))
        """The text for a missing value."""
        offered = [("", "---------")] if blank else []
        super().__init__(widget=forms.Select(choices=[*offered, *_labelled(choices)]), **options)

    def shown(self, value: Any) -> str:
        return encoded(value)

    def read(self, text: Any) -> Any:
        return _chosen(self.values, text)


class Choices(ArgumentField):
    """Several of some JSON values, in their order, each once."""

    empty_values: Any = [None, "", EMPTY, []]

    def __init__(self, *, choices: Sequence[tuple[Any, str]], **options: Any) -> None:
        self.values = {encoded(value): value for value, _label in choices}
        rows = min(len(self.values), _MOST_ROWS)
        super().__init__(
            widget=forms.SelectMultiple(choices=_labelled(choices), attrs={"size": rows, "class": "mcp-choices"}),
            **options,
        )

    def shown(self, value: Any) -> list[str]:
        return [encoded(each) for each in value]

    def read(self, text: Any) -> Any:
        chosen = {encoded(_chosen(self.values, each)) for each in text}
        return [value for code, value in self.values.items() if code in chosen]


class LinesField(ArgumentField):
    """A list of texts or numbers, one per line."""

    widget = forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField mcp-grows"})

    def __init__(self, *, item: str, **options: Any) -> None:
        self._item: Callable[[str], Any] = str
        if item != "string":
            self._item = partial(number, whole=item == "integer")
        super().__init__(**options)
        self.validators.append(ProhibitNullCharactersValidator())

    def shown(self, value: Any) -> str:
        return "\n".join(each if isinstance(each, str) else json.dumps(each) for each in value)

    def read(self, text: Any) -> Any:
        items = []
        for place, line in enumerate(_plain(text).split("\n"), 1):
            if not line.strip():
                continue
            try:
                items.append(self._item(line))
            except ValidationError as error:
                raise ValidationError(_("Line %(place)d: %(fault)s"), params=_fault(place, error)) from None
        return items or EMPTY

    def represents(self, value: Any) -> bool:
        return isinstance(value, list) and super().represents(value)


class Anything(ArgumentField):
    """Any JSON value, entered as JSON."""

    widget = forms.Textarea(attrs={"rows": 2, "class": "vLargeTextField mcp-json mcp-grows", "spellcheck": "false"})

    def shown(self, value: Any) -> str:
        return json.dumps(value, indent=2, ensure_ascii=False)

    def read(self, text: Any) -> Any:
        if not str(text).strip():
            return EMPTY
        decoded = decode(str(text).encode("utf-8", "surrogatepass"), Limits(max_depth=settings.MAX_DEPTH))
        if isinstance(decoded, Rejection) or holds_forbidden_text(decoded.value, decoded.text):
            raise ValidationError(_JSON_FAULT, code="invalid")
        return decoded.value


def encoded(value: Any) -> str:
    """Encode a JSON value as text that differs for 1, 1.0 and true, and is the same for equal values."""
    return repr(value) if value is EMPTY else json.dumps(value, sort_keys=True)


def number(text: str, *, whole: bool) -> int | float:
    """Parse a JSON number. Raises ValidationError."""
    decoded = decode(text.strip().encode("utf-8", "replace"))
    value = None if isinstance(decoded, Rejection) else decoded.value
    if isinstance(value, float) and whole and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise ValidationError(_("Enter a whole number.") if whole else _("Enter a number."), code="invalid")
    return value


def _plain(text: Any) -> str:
    """Return the text with the line ends as typed, because browsers send each as two characters."""
    return str(text).replace("\r\n", "\n").replace("\r", "\n")


def _input(kind: str, **attrs: Any) -> forms.Widget:
    widget = forms.TextInput(attrs={"class": "vTextField", **attrs})
    widget.input_type = kind
    return widget


def _labelled(choices: Sequence[tuple[Any, str]]) -> list[tuple[str, str]]:
    return [(encoded(value), safe_text(label, CHOICE_CHARS)) for value, label in choices]


def _chosen(values: Mapping[str, Any], text: Any) -> Any:
    if text not in values:
        raise ValidationError(_("Select one of the choices."), code="invalid_choice")
    return values[text]


def _fault(place: int, error: ValidationError) -> dict[str, Any]:
    return {"place": place, "fault": " ".join(error.messages)}
