"""The form for what administrators override of a tool, with the help texts of empty fields.

It rejects values with which the tool could not be offered or run. An empty field is `None`: the code's value applies.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from django import forms
from django.utils.html import escape
from django.utils.translation import gettext_lazy as _

from mcp_app.admin.tools import tool_texts
from mcp_app.catalogue import catalogue
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.catalogue.declaration import is_name
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.models import Tool
from mcp_app.safe_text import safe_text
from mcp_app.states import CancelPolicy

MAX_GRACE: Final = 3600.0
MAX_TIME_LIMIT: Final = 7 * 24 * 3600.0
MAX_DESCRIPTION_CHARS: Final = 10_000
_SHOWN_CHARS: Final = 100
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_CONTROL_BUT_LINES: Final = re.compile(r"(?![\t\n])" + _CONTROL.pattern)


class ToolForm(forms.ModelForm):
    """Edits an existing `Tool`, except `registered` and the code's values."""

    class Meta:
        model = Tool
        fields = (
            "enabled",
            "title",
            "description",
            "queue",
            "time_limit",
            "cancel_policy",
            "cooperative_grace",
            "hard_grace",
        )
        labels = {
            "time_limit": _("Time limit (seconds)"),
            "cooperative_grace": _("Cooperative grace (seconds)"),
            "hard_grace": _("Hard grace (seconds)"),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plain = catalogue.effective(Tool(name=self.instance.pk))
        """`registered` is the tool without overrides, or `None` if its code is gone."""
        for name, field in self.fields.items():  # a user who may only view has none
            field.help_text = escape(_help(name, self.plain))
        if isinstance(policy := self.fields.get("cancel_policy"), forms.ChoiceField) and self.plain is not None:
            policy.choices = [("", f"as in the code: {self.plain.cancel_policy.label}"), *CancelPolicy.choices]

    def clean_title(self) -> str | None:
        return _without_control(self.cleaned_data["title"], _CONTROL)

    def clean_description(self) -> str | None:
        text = (self.cleaned_data["description"] or "").replace("\r\n", "\n")
        if len(text) > MAX_DESCRIPTION_CHARS:
            raise forms.ValidationError(
                _("A description may have at most %(most)d characters."), params={"most": MAX_DESCRIPTION_CHARS}
            )
        return _without_control(text, _CONTROL_BUT_LINES)

    def clean_queue(self) -> str | None:
        queue: str | None = self.cleaned_data["queue"] or None
        if queue is not None and not is_name(queue):
            raise forms.ValidationError(_("A queue's name has 1 to 128 of the characters A-Z a-z 0-9 _ . -"))
        return queue

    def clean_time_limit(self) -> float | None:
        seconds: float | None = self.cleaned_data["time_limit"]
        if seconds is not None and not 0 < seconds <= MAX_TIME_LIMIT:
            raise forms.ValidationError(
                _("A time limit must be above 0 and at most %(most)d seconds."), params={"most": MAX_TIME_LIMIT}
            )
        return seconds

    def clean_cooperative_grace(self) -> float | None:
        return _grace(self.cleaned_data["cooperative_grace"])

    def clean_hard_grace(self) -> float | None:
        return _grace(self.cleaned_data["hard_grace"])

    def clean(self) -> dict[str, Any]:
        """Check that the kill would not come before the interrupt."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        graces = [cleaned.get(name) for name in ("cooperative_grace", "hard_grace")]
        if graces == [None, None] or self.plain is None:
            return cleaned
        cooperative = self.plain.cooperative_grace if graces[0] is None else graces[0]
        hard = self.plain.hard_grace if graces[1] is None else graces[1]
        if hard < cooperative:
            self.add_error(
                "hard_grace",
                forms.ValidationError(
                    _(
                        "Both graces start at the cancellation, so the hard grace (%(hard)s s) must not be shorter "
                        "than the cooperative grace (%(cooperative)s s)."
                    ),
                    params={"hard": f"{hard:g}", "cooperative": f"{cooperative:g}"},
                ),
            )
        return cleaned


def _grace(seconds: float | None) -> float | None:
    if seconds is not None and not 0 <= seconds <= MAX_GRACE:
        raise forms.ValidationError(_("A grace must be 0 to %(most)d seconds."), params={"most": MAX_GRACE})
    return seconds


def _without_control(text: str | None, refused: re.Pattern[str]) -> str | None:
    if text and refused.search(text):
        raise forms.ValidationError(_("It must not contain control characters or changes of text direction."))
    return text or None


_SITE: Final[dict[str, tuple[str, Callable[[RegisteredTool], object]]]] = {
    "queue": ("QUEUE", lambda tool: tool.queue),
    "time_limit": ("DEFAULT_TIME_LIMIT", lambda tool: tool.time_limit),
    "cooperative_grace": ("COOPERATIVE_GRACE", lambda tool: tool.cooperative_grace),
    "hard_grace": ("HARD_GRACE", lambda tool: tool.hard_grace),
}
"""The site's setting for a field, and the value of the code."""


def _help(field: str, plain: OfferedTool | None) -> str:
    """Return the help text of a field: the meaning of an empty field."""
    if field == "enabled":
        return "A disabled tool is not listed, and calls of it are refused as if it did not exist."
    if field == "cancel_policy":
        return "The last stage that a cancellation may reach."
    extra = f" {tool_texts.QUEUE}" if field == "queue" else ""
    if plain is None:
        return f"Empty: as in the code. The code does not exist at the moment.{extra}"
    if field == "description":
        return "The description for models. Empty: the description from the code, below."
    value = getattr(plain, field)
    shown = f"{value:g} s" if isinstance(value, float | int) else safe_text(value or "none", _SHOWN_CHARS)
    if field in _SITE and _SITE[field][1](plain.registered) is None:
        return f'Empty: {shown}, the site\'s default (MCP["{_SITE[field][0]}"]).{extra}'
    return f"Empty: {shown}, as in the code.{extra}"
