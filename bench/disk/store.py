"""`python -m bench.disk.store CALLS`: stores calls of each kind, and prints how much the databases grew per call.

Each call goes through the steps of a server and a worker: it is submitted, claimed, reported on, stopped or completed,
delivered, counted and sealed. Run this in the environment of a site with empty databases.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from uuid import uuid4

import django

ROUNDS: Final = 10
"""The number of rounds in which the calls of a kind are stored.

PostgreSQL is vacuumed after each round, as autovacuum would do.
"""
AT_ONCE: Final = 100
CALLERS: Final = 50
REPORTS: Final = 10
TEXT_CHARS: Final = 10_000


def main() -> None:
    django.setup()
    from django.core.management import call_command
    from django.db import connections

    from bench.disk import sizes
    from mcp_app.catalogue import tool_rows

    for alias in connections:
        call_command("migrate", database=alias, verbosity=0)
    tool_rows.sync()
    calls, kinds = int(sys.argv[1]), {}
    begun = before = sizes.of_site()
    for kind, one in _kinds().items():
        for some in _parts(calls, ROUNDS):
            _store(one, some)
            sizes.vacuum(whole=False)
        after = sizes.of_site()
        kinds[kind] = {
            part: {each: (after[part][each] - before[part][each]) / calls for each in after[part]} for part in after
        }
        before = after
    sizes.vacuum(whole=True)
    packed = (sizes.total(sizes.of_site()) - sizes.total(begun)) / (sizes.total(after) - sizes.total(begun))
    print(json.dumps({"calls": calls, "kinds": kinds, "packed": packed}))


def _parts(calls: int, rounds: int) -> Iterator[int]:
    """Yield the number of calls of each round, as equal as possible."""
    for number in range(rounds):
        yield calls * (number + 1) // rounds - calls * number // rounds


def _kinds() -> dict[str, Callable[[], Any]]:
    text = "".join(random.Random(20261123).choices("abcdefghijklmnopqrstuvwxyz     ", k=TEXT_CHARS))
    return {
        "echo": partial(_call, "hi"),
        f"{REPORTS} reports of progress": partial(_call, "hi", reports=REPORTS),
        f"a text of {TEXT_CHARS:,} letters": partial(_call, text),
        "cancelled": partial(_call, "hi", cancelled=True),
    }


def _store(one: Callable[[], Any], calls: int) -> None:
    from mcp_app.lifecycle.audit import sealing
    from mcp_app.lifecycle.requests import observation
    from mcp_app.lifecycle.statistics import tallies

    ended: list[Any] = []
    for number in range(1, calls + 1):
        ended.append(one())
        if len(ended) == AT_ONCE or number == calls:
            observation.mark_delivered(ended)
            sealing.seal_final_attempts()
            tallies.count_ended()
            ended = []


def _call(text: str, *, reports: int = 0, cancelled: bool = False) -> Any:
    """Store one call up to its end, and return its id."""
    from mcp_app.lifecycle.requests import transitions
    from mcp_app.lifecycle.requests.events import Event
    from mcp_app.states import EventKind

    row = transitions.claim(transitions.submit(_submission()).pk, worker=uuid4(), pid=4_711)
    assert row is not None
    for done in range(1, reports + 1):
        told = {"progress": done, "total": reports, "message": f"{done} of {reports} files"}
        columns = {"progress": done, "progress_total": reports, "progress_message": told["message"]}
        transitions.record(row.pk, [Event(EventKind.PROGRESS, told)], **columns)
    if cancelled:
        _stop(row)
    else:
        _end(row, text)
    return row.pk


def _submission() -> Any:
    from mcp_app.auth.principal import Principal
    from mcp_app.lifecycle.requests.submission import Submission
    from mcp_app.states import CancelPolicy

    number = random.randrange(CALLERS)
    name = f"caller {number}"
    return Submission(
        jsonrpc_id=random.randrange(1_000),
        tool="echo",
        arguments={"text": "hi"},
        protocol_version="2026-07-28",
        principal=Principal("https://id.example.org", name, "editor", name, str(number)),
        cancel_policy=CancelPolicy.KILL,
        cooperative_grace=0.1,
        hard_grace=5.0,
        time_limit=3600.0,
        queue="mcp",
        server=_SERVER,
        client_info={"name": "editor", "version": "1.102.3"},
        remote_address="192.0.2.7",
    )


def _end(row: Any, text: str) -> None:
    from mcp_app.lifecycle.requests import transitions
    from mcp_app.states import Status

    result = {"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}}
    if not transitions.end_run(row, Status.COMPLETED, result=result):
        raise RuntimeError(f"request {row.pk} did not end as it should")


def _stop(row: Any) -> None:
    from mcp_app.celery_adapter import results
    from mcp_app.lifecycle.audit.attempts import Actor
    from mcp_app.lifecycle.cancellation import cancellation
    from mcp_app.lifecycle.requests import transitions
    from mcp_app.states import Cause, Stage, Status

    actor = Actor(row.principal_label, row.remote_address)
    cancellation.cancel(row.pk, cause=Cause.DISCONNECT, actor=actor)
    transitions.reach_stage(row.pk, Stage.INTERRUPT)
    transitions.finish(row.pk, Status.CANCELLED, worker=row.worker, stage=Stage.INTERRUPT)
    task = _task_of(row)
    results.store_revoked(row.pk, Cause.DISCONNECT.value, task.request)
    task.pop_request()


def _task_of(row: Any) -> Any:
    """Return Celery's task with the state that it has while it runs this request."""
    from celery import current_app

    from mcp_app.celery_adapter.broker import RUN_TASK
    from mcp_app.execution import worker  # noqa: F401 # registers it

    task = current_app.tasks[RUN_TASK]
    argument = [str(row.pk)]
    task.push_request(id=str(row.pk), args=argument, kwargs={}, hostname="celery@mcp-0a1b2c3d@host", task=RUN_TASK)
    return task


_SERVER = uuid4()


if __name__ == "__main__":
    main()
