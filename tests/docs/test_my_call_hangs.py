"""docs/how-to/my-call-hangs.md shows the real output of its commands, and quotes the real messages."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Final

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F

from mcp_app import databases
from mcp_app.conf import Defaults
from mcp_app.diagnosis import workers
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity, KnownProcess
from mcp_app.lifecycle.liveness.queues import Place
from mcp_app.lifecycle.supervision import unconsumed_queues
from mcp_app.management.requests import request_rows
from mcp_app.models import Request
from mcp_app.presentation.facts import describe_place, describe_status, facts, payloads
from mcp_app.states import UNSTOPPABLE, CancelPolicy, ProcessRole
from mcp_app.transport.serving import failures
from tests.docs.pages import DOCS, snippet
from tests.docs.samples import SITE, as_on_a_page, same
from tests.support import rows
from tests.support.failing_database import write_lock

PAGE: Final = DOCS / "how-to/my-call-hangs.md"
AGE: Final = timedelta(seconds=20)

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


def printed(*words: str) -> str:
    output = StringIO()
    with suppress(CommandError):  # the doctor's, after its findings
        call_command("mcp", *words, stdout=output, stderr=StringIO())
    return as_on_a_page(output.getvalue(), Path("/srv/nowhere"))


def failed(name: str) -> str:
    """Run the doctor, and return its command and the failed findings with this name, with their remedies."""

    def chosen() -> Iterator[str]:
        is_chosen = False
        for line in printed("doctor", "--timeout", "30").splitlines():
            if not line.startswith("      "):
                is_chosen = line.startswith(f"x   {name} ")
            if is_chosen:
                yield line

    return "\n".join(["$ python manage.py mcp doctor", "…", *chosen(), "…", ""])


def age(row: Request) -> None:
    Request.objects.filter(pk=row.pk).update(submitted_at=F("submitted_at") - AGE, queued_at=F("queued_at") - AGE)


def test_the_list_of_requests_has_the_statuses_of_open_calls() -> None:
    worker = Identity(ProcessRole.WORKER)
    processes.beat(worker)
    asking = rows.asking(worker.boot_id, tool="order")
    running = rows.running(worker.boot_id, tool="countdown")
    Request.objects.filter(pk=running.pk).update(progress=4.0, progress_total=600.0, progress_message="596 s left")
    for row in (asking, running, rows.queued(tool="roman", queue="mcp")):
        age(row)
    same(snippet("how-to/my-call-hangs.md#my-call-hangs"), f"$ python manage.py mcp requests\n{printed('requests')}")


def test_the_doctor_reports_that_no_worker_is_alive() -> None:
    same(snippet("how-to/my-call-hangs.md#1-is-a-worker-running"), failed("workers"))


def test_the_doctor_reports_a_queue_that_no_worker_takes() -> None:
    age(rows.queued(queue="mcp"))
    same(snippet("how-to/my-call-hangs.md#2-does-the-worker-take-the-queue"), failed("queues"))


def test_the_doctor_reports_a_lock() -> None:
    if databases.connection().vendor != "sqlite":
        pytest.skip("only SQLite locks the whole database")
    name = str(databases.connection().settings_dict["NAME"])
    with write_lock():
        found = failed("database").replace(name, f"{SITE}/db-mcp.sqlite3")
    same(snippet("how-to/my-call-hangs.md#3-is-the-database-locked"), found)


def test_the_messages_and_labels_are_quoted_as_they_are() -> None:
    silent = workers._describe_alive(KnownProcess(Identity(ProcessRole.WORKER), 1.0, True), None, asked=True)
    asked = rows.fresh(rows.asking(rows.alive(ProcessRole.WORKER)))
    stubborn = rows.stopping(rows.alive(ProcessRole.WORKER), cancel_policy=CancelPolicy.COOPERATIVE)
    unstoppable = rows.stopping(rows.alive(ProcessRole.WORKER))
    unstoppable.error = {"cause": UNSTOPPABLE}
    ended = rows.queued()
    rows.cancel(ended)
    page = PAGE.read_text()
    for quoted in (
        silent.found.partition(", and ")[2].partition(" within")[0],
        unconsumed_queues.describe("mcp"),
        failures.DATABASE_AWAY,
        f"`{describe_place(Place('mcp', ahead=2, waiting=7))}`",
        request_rows.status(unstoppable),
        describe_status(stubborn).remark,
        *(payload.title for payload in payloads(asked) if payload.title.startswith("Questions")),
        *(fact.name for fact in facts(rows.fresh(ended)) if fact.name.startswith("Handed")),
        *(f"*{fact.name}*" for fact in facts(rows.fresh(unstoppable)) if fact.name in ("Tool's process", "Worker")),
    ):
        assert quoted in page


def test_the_times_are_the_defaults() -> None:
    page = PAGE.read_text()
    for words, seconds in (
        ("`DATABASE_TIMEOUT` (15 s)", Defaults.DATABASE_TIMEOUT),
        ("`MAX_QUEUE_SECONDS` (10 min)", Defaults.MAX_QUEUE_SECONDS),
        ("`DEFAULT_TIME_LIMIT` (1 h)", Defaults.DEFAULT_TIME_LIMIT),
        ("`MAX_INPUT_SECONDS` (30 min)", Defaults.MAX_INPUT_SECONDS),
        ("after 15 s.", unconsumed_queues.FAIL_AFTER_SECONDS),
    ):
        assert words in page
        number, unit = re.findall(r"(\d+) (s|min|h)\b", words)[0]
        assert int(number) * {"s": 1, "min": 60, "h": 3600}[unit] == seconds
