"""The timeline of a request: its events as lines, newest first, a limited number at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Case, JSONField, TextField, When
from django.db.models.functions import Cast, Left, Length

from mcp_app.lifecycle.database.json_values import finite
from mcp_app.models import RequestEvent
from mcp_app.presentation.formatting import NOTHING, Excerpt, as_json, excerpt, moment, number
from mcp_app.states import UNSTOPPABLE, Cause, EventKind, Stage, Status

LINES = 200
LINE_CHARS = 2_000
WHOLE_CHARS = 20_000
"""Larger events are fetched only in part, because a tool may log megabytes in a single event."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event. `kind` is a value of `states`, for the colour.

    `withheld` means that the text is left out because it is payload.
    """

    seq: int
    at: str
    kind: str
    label: str
    text: Excerpt
    withheld: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """Some lines, and the number of older ones.

    `older` is the argument `before` for the next page.
    """

    lines: list[Line]
    remaining: int = 0
    older: int | None = None


def timeline(request_id: UUID, *, before: int | None, payload: bool) -> Timeline:
    """Return the newest lines of a request, or the newest ones whose number is below `before`."""
    events = RequestEvent.objects.filter(request_id=request_id).order_by("-seq")
    if before is not None:
        events = events.filter(seq__lt=before)
    raw = Cast("data", TextField())
    whole = Case(When(size__lte=WHOLE_CHARS, then="data"), default=None, output_field=JSONField())
    measured = events.defer("data").annotate(size=Length(raw), beginning=Left(raw, LINE_CHARS)).annotate(whole=whole)
    lines = [_line(event, payload=payload) for event in measured[:LINES]]
    oldest = lines[-1].seq if lines else 1
    return Timeline(lines, oldest - 1, oldest if oldest > 1 else None)


def _line(event: Any, *, payload: bool) -> Line:
    data = event.whole if isinstance(event.whole, dict) else {}
    kind = EventKind(event.kind)
    public, private = ("", event.beginning) if event.whole is None else _DESCRIBE[kind](data)
    words = ": ".join(part for part in (public, private) if part)
    shown = excerpt(words if payload else public, LINE_CHARS)
    if event.whole is None and payload:
        shown = Excerpt(shown.text, event.size - LINE_CHARS)
    return Line(
        seq=event.seq,
        at=moment(event.recorded_at, precise=True),
        kind=str(data.get("status", kind)) if kind == EventKind.TRANSITION else kind.value,
        label=str(kind.label),
        text=shown,
        withheld=bool(private) and not payload,
    )


def _transition(data: Mapping[str, Any]) -> tuple[str, str]:
    public = _label(Status, data.get("status"))
    if "pid" in data:
        public += f" in process {data['pid']}"
    return public, as_json(data["error"]) if data.get("error") else ""


def _cancel(data: Mapping[str, Any]) -> tuple[str, str]:
    public = f"{_label(Cause, data.get('cause'))}, asked by {data.get('actor', '')}"
    return (f"{public}: “{data['reason']}”" if data.get("reason") else public), ""


def _stage(data: Mapping[str, Any]) -> tuple[str, str]:
    if data.get("stage") == UNSTOPPABLE:
        return "cannot be stopped here: its client gets an error, and it runs until it ends by itself", ""
    name = str(data.get("stage", "")).upper()
    return str(Stage[name].label) if name in Stage.__members__ else name, ""


def _progress(data: Mapping[str, Any]) -> tuple[str, str]:
    done, total = finite(data.get("progress")), finite(data.get("total"))
    public = NOTHING if done is None else number(done)
    return (public if total is None else f"{public} of {number(total)}"), str(data.get("message") or "")


def _log(data: Mapping[str, Any]) -> tuple[str, str]:
    message = data.get("data", "")
    message = message if isinstance(message, str) else as_json(message)
    return str(data.get("level", "")), f"{data.get('logger', '')}: {message}"


def _input(data: Mapping[str, Any]) -> tuple[str, str]:
    for what in ("asked", "answered", "visited"):
        if isinstance(values := data.get(what), Mapping):
            return f"{what} {', '.join(map(str, values))}", as_json(values)
    return "", as_json(data)


def _note(data: Mapping[str, Any]) -> tuple[str, str]:
    return "", as_json(data)


def _label(words: type[Status] | type[Cause], value: object) -> str:
    return str(words(value).label) if value in words.values else str(value)


_DESCRIBE = {
    EventKind.TRANSITION: _transition,
    EventKind.CANCEL: _cancel,
    EventKind.STAGE: _stage,
    EventKind.PROGRESS: _progress,
    EventKind.LOG: _log,
    EventKind.INPUT: _input,
    EventKind.NOTE: _note,
}
