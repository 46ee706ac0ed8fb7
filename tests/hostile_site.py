"""A site in whose rows every text from outside has characters that hide, reverse or control text."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import CharField, Model, TextField
from django.utils import timezone
from django_celery_results.models import TaskResult

from mcp_app.auth import tokens
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Cancellation, ListenStream, Process, Request, RequestEvent, Session, Tally, Token, Tool
from mcp_app.safe_text import safe_text
from mcp_app.states import Cause, EventKind, Measure, Outcome, Stage, Status
from mcp_app.tools import tool
from mcpsite.models import Contact
from tests.support import rows

HOSTILE: Final = "a\u202eb\x1b[2Jc\u2066\x07"
FORM: Final = {"type": "object", "properties": {HOSTILE: {"type": "string", "title": HOSTILE, "description": HOSTILE}}}
QUESTION: Final = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": HOSTILE, "requestedSchema": FORM},
}
JSON: Final[dict[str, Any]] = {
    "arguments": {HOSTILE: HOSTILE},
    "result": {"content": [{"type": "text", "text": HOSTILE}], "structuredContent": {HOSTILE: HOSTILE}},
    "partial_result": {"content": [{"type": "text", "text": HOSTILE}]},
    "error": {"cause": "tool", "type": HOSTILE, "message": HOSTILE, "traceback": HOSTILE},
    "client_info": {"name": HOSTILE, "version": HOSTILE, "title": HOSTILE},
    "jsonrpc_id": HOSTILE,
    "progress_token": HOSTILE,
    "questions": {HOSTILE: QUESTION},
    "answers": {HOSTILE: {"action": "accept", "content": {HOSTILE: HOSTILE}}},
    "kept": {HOSTILE: HOSTILE},
    "trace_context": {"traceparent": HOSTILE},
    "scopes": [HOSTILE],
    "subscriptions": [HOSTILE],
    "filter": {"toolsListChanged": True, "resourceSubscriptions": [HOSTILE]},
}
HIDDEN: Final = "".join(sorted({each for each in HOSTILE if safe_text(each) != each}))
OURS: Final = ("digest",)
"""Columns that never contain text from outside."""


def spoil(model: type[Model], **where: Any) -> None:
    """Put the hostile text into every text column of these rows, and into all JSON that can hold it."""
    columns: dict[str, Any] = {}
    for field in model._meta.concrete_fields:
        if field.name in JSON:
            columns[field.name] = JSON[field.name]
        elif isinstance(field, CharField | TextField) and not (field.choices or field.unique or field.name in OURS):
            columns[field.name] = HOSTILE[: field.max_length]
    model._default_manager.filter(**where).update(**columns)


def _add_events(row: Request) -> None:
    told = {"message": HOSTILE, "data": HOSTILE, "level": HOSTILE, "logger": HOSTILE, "actor": HOSTILE}
    told |= {"reason": HOSTILE, "progress": 1, "cause": Cause.ADMIN, "stage": "kill", "status": Status.RUNNING}
    told |= {"asked": {HOSTILE: QUESTION}, "answered": {HOSTILE: {"action": HOSTILE}}, "error": {"message": HOSTILE}}
    for number, kind in enumerate(EventKind, 100):
        RequestEvent.objects.create(request_id=row.pk, seq=number, kind=kind, data=told)


@contextmanager
def hostile_site(worker: UUID) -> Iterator[None]:
    """Create rows of all kinds in which every text from outside is hostile."""
    with isolated_registries():

        @tool(name="odd", title=HOSTILE, description=HOSTILE)
        def odd(text: str = HOSTILE) -> str:
            return text

        Tool.objects.create(name="odd", description=HOSTILE, title=HOSTILE, location=HOSTILE)
        Tool.objects.create(name=HOSTILE, registered=False, title=HOSTILE, location=HOSTILE)
        spoil(Process)
        Contact.objects.create(name=HOSTILE, email=HOSTILE, company=HOSTILE, phone=HOSTILE)
        session = Session.objects.create(client_capabilities={}, stream_server=worker)
        ListenStream.objects.create(server=worker, filter={})
        for model in (Session, ListenStream):
            spoil(model)
        Tally.objects.create(
            hour=timezone.now(), tool=HOSTILE, measure=Measure.RUN, status=Status.FAILED, bucket=1, count=1
        )
        user = User.objects.create_user("eve", first_name=HOSTILE)
        tokens.issue(user, HOSTILE, by=HOSTILE, scopes=[HOSTILE])
        tokens.revoke([tokens.issue(user, HOSTILE, by=HOSTILE).row.prefix], by=HOSTILE)
        spoil(Token)
        Token.objects.filter(revoked_at=None).update(revoked_by="")
        parent = rows.running(worker, session=session.pk)
        others = [
            rows.queued(parent=parent.pk, depth=1),
            rows.asking(worker),
            rows.stopping(worker),
            rows.running(worker),
        ]
        transitions.finish(others[-1].pk, Status.FAILED, worker=worker, error={"message": HOSTILE})
        for row in (parent, *others):
            spoil(Request, pk=row.pk)
            _add_events(row)
            Cancellation.objects.create(**_attempt(row))
            TaskResult.objects.create(
                task_id=str(row.pk), status="FAILURE", worker=HOSTILE, traceback=HOSTILE, meta=HOSTILE
            )
        Cancellation.objects.create(**(_attempt(parent) | {"request_id": None, "requested_id": HOSTILE}))
        yield


def _attempt(row: Request) -> dict[str, Any]:
    texts = ("tool", "issuer", "subject", "client_id", "endpoint", "principal_label", "client_name", "actor")
    columns = dict.fromkeys((*texts, "actor_address", "reason", "part_of"), HOSTILE)
    known = {
        "cause": Cause.ADMIN,
        "outcome": Outcome.ACCEPTED,
        "stage": Stage.KILL,
        "requested_at": timezone.now(),
        "status_before": Status.RUNNING,
        "status_after": Status.CANCELLED,
    }
    return {"request_id": row.pk, **columns, **known}
