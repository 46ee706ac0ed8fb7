"""A request's timeline: its events as lines, newest first, a bounded number at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Case, JSONField, QuerySet, TextField, When
from django.db.models.functions import Cast, Left, Length

from mcp_app.lifecycle.events import finite
from mcp_app.models import RequestEvent
from mcp_app.states import UNSTOPPABLE, Cause, EventKind, Stage, Status
from mcp_app.telling.formatting import NOTHING, Excerpt, as_json, excerpt, moment, number

LINES = 200
LINE_CHARS = 2_000
WHOLE_CHARS = 20_000
"""Of an event larger than this only the beginning is fetched: a tool may log megabytes in each of its lines."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event. `kind` is a value of `states`, for its colour; `withheld`: its text is payload, and not shown."""

    seq: int
    at: str
    kind: str
    label: str
    text: Excerpt
    withheld: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """Some lines, and how many are older than these. `older` is what to ask for as `before` to see them."""

    lines: list[Line]
    remaining: int = 0
    older: int | None = None


def timeline(request_id: UUID, *, before: int | None, payload: bool) -> Timeline:
    """The newest lines of a request, or the newest of those numbered below `before`."""
    events = RequestEvent.objects.filter(request_id=request_id).order_by("-seq")
    if before is not None:
        events = events.filter(seq__lt=before)
    lines = [_line(event, payload=payload) for event in _measured(events)[:LINES]]
    oldest = lines[-1].seq if lines else 1
    return Timeline(lines, oldest - 1, oldest if oldest > 1 else None)


def _measured(events: QuerySet[RequestEvent]) -> QuerySet[Any]:
    raw = Cast("data", TextField())
    whole = Case(When(size__lte=WHOLE_CHARS, then="data"), default=None, output_field=JSONField())
    measured = events.defer("data").annotate(size=Length(raw), beginning=Left(raw, LINE_CHARS))
    return measured.annotate(whole=whole)


def _line(event: Any, *, payload: bool) -> Line:
    data = event.whole if isinstance(event.whole, dict) else {}
    kind = EventKind(event.kind)
    told, secret = ("", event.beginning) if event.whole is None else _WORDS[kind](data)
    words = ": ".join(part for part in (told, secret) if part)
    shown = excerpt(words if payload else told, LINE_CHARS)
    if event.whole is None and payload:
        shown = Excerpt(shown.text, event.size - LINE_CHARS)
    return Line(
        seq=event.seq,
        at=moment(event.recorded_at, precise=True),
        kind=str(data.get("status", kind)) if kind == EventKind.TRANSITION else kind.value,
        label=str(kind.label),
        text=shown,
        withheld=bool(secret) and not payload,
    )


def _transition(data: Mapping[str, Any]) -> tuple[str, str]:
    told = _label(Status, data.get("status"))
    if "pid" in data:
        told += f" in process {data['pid']}"
    return told, as_json(data["error"]) if data.get("error") else ""


def _cancel(data: Mapping[str, Any]) -> tuple[str, str]:
    told = f"{_label(Cause, data.get('cause'))}, asked by {data.get('actor', '')}"
    return (f"{told}: “{data['reason']}”" if data.get("reason") else told), ""


def _stage(data: Mapping[str, Any]) -> tuple[str, str]:
    if data.get("stage") == UNSTOPPABLE:
        return "unstoppable here: its client is told so, and it runs on until it ends by itself", ""
    name = str(data.get("stage", "")).upper()
    return str(Stage[name].label) if name in Stage.__members__ else name, ""


def _progress(data: Mapping[str, Any]) -> tuple[str, str]:
    done, total = finite(data.get("progress")), finite(data.get("total"))
    told = NOTHING if done is None else number(done)
    return (told if total is None else f"{told} of {number(total)}"), str(data.get("message") or "")


def _log(data: Mapping[str, Any]) -> tuple[str, str]:
    said = data.get("data", "")
    said = said if isinstance(said, str) else as_json(said)
    return str(data.get("level", "")), f"{data.get('logger', '')}: {said}"


def _input(data: Mapping[str, Any]) -> tuple[str, str]:
    for what in ("asked", "answered", "visited"):
        if isinstance(values := data.get(what), Mapping):
            return f"{what} {', '.join(map(str, values))}", as_json(values)
    return "", as_json(data)


def _note(data: Mapping[str, Any]) -> tuple[str, str]:
    return "", as_json(data)


def _label(words: type[Status] | type[Cause], value: object) -> str:
    return str(words(value).label) if value in words.values else str(value)


_WORDS = {
    EventKind.TRANSITION: _transition,
    EventKind.CANCEL: _cancel,
    EventKind.STAGE: _stage,
    EventKind.PROGRESS: _progress,
    EventKind.LOG: _log,
    EventKind.INPUT: _input,
    EventKind.NOTE: _note,
}
