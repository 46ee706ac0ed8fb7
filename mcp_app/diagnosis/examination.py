"""Run the checks one after the other, each in its own thread and with a time limit.

A check yields findings: a state, a sentence, and what to do about it. A check that raises, or that
does not end in time, is a failed finding as well. If a check has failed, the checks that need it
are skipped.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeVar

from django.db import Error, connections

from mcp_app.celery_adapter.broker import SilentBrokerError
from mcp_app.diagnosis.worker_ping import ANSWER_SECONDS, WorkerAnswer, ping_workers
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import KnownProcess
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)

R = TypeVar("R")

CHECK_SECONDS: Final = 5.0
"""The default time limit of a check."""
MIN_CHECK_SECONDS: Final = ANSWER_SECONDS + 0.5
"""The shortest time limit: waiting for workers' answers always takes `ANSWER_SECONDS`."""


class State(StrEnum):
    """The state of the component that was checked."""

    OK = "ok"
    WARNING = "warning"
    """The site works, but an administrator should look into it."""
    FAILED = "failed"
    """Something does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of a check: a sentence with numbers and units, and a remedy unless it is OK."""

    name: str
    state: State
    found: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return {**asdict(self), "state": self.state.value}


def ok(name: str, found: str) -> Finding:
    return Finding(name, State.OK, found)


def warning(name: str, found: str, remedy: str) -> Finding:
    return Finding(name, State.WARNING, found, remedy)


def failed(name: str, found: str, remedy: str) -> Finding:
    return Finding(name, State.FAILED, found, remedy)


def has_failed(findings: Iterable[Finding]) -> bool:
    return any(finding.state == State.FAILED for finding in findings)


class SharedFacts:
    """Facts that several checks need. Each is determined once per examination."""

    @cached_property
    def worker_answers(self) -> list[WorkerAnswer] | None:
        """The workers' answers over the broker, or `None` if the broker cannot be reached."""
        try:
            return ping_workers()
        except SilentBrokerError as error:
            logger.debug("the workers could not be queried: %s", error)
            return None

    @cached_property
    def workers(self) -> list[KnownProcess]:
        """The workers whose rows are not marked as stopped. Raises `django.db.Error`."""
        return processes.vouched_for(ProcessRole.WORKER)


@dataclass(frozen=True, slots=True)
class DiagnosticCheck:
    """A check. Its findings have the same name.

    `remedy` is the remedy if the check itself raises or does not end. `needs` are the names of the
    checks without which this one makes no sense.
    """

    name: str
    find: Callable[[SharedFacts], Iterable[Finding]]
    remedy: str
    needs: frozenset[str] = frozenset()


def examine(checks: Iterable[DiagnosticCheck], seconds: float = CHECK_SECONDS) -> Iterator[Finding]:
    """Run the checks in order, each with a time limit, and yield the findings as they come."""
    shared = SharedFacts()
    states: dict[str, State] = {}
    for check in checks:
        missing = sorted(need for need in check.needs if states.get(need) == State.FAILED)
        findings = [_skipped(check, missing)] if missing else _run_check(check, shared, seconds, states)
        for finding in findings:
            if states.get(finding.name) != State.FAILED:
                states[finding.name] = finding.state
            yield finding


def within(seconds: float, function: Callable[[], R]) -> R:
    """Call a function in a thread with its own database connections, and return its result.

    Raises `TimeoutError` if it takes longer. The thread then goes on in the background; it is a
    daemon thread, so the process can end.
    """
    done: Future[R] = Future()

    def run() -> None:
        try:
            try:
                result = function()
            finally:
                connections.close_all()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=run, name="mcp-look", daemon=True).start()
    return done.result(timeout=seconds)


def _run_check(check: DiagnosticCheck, shared: SharedFacts, seconds: float, states: dict[str, State]) -> list[Finding]:
    try:
        return within(seconds, lambda: list(check.find(shared)))
    except Exception as error:
        if isinstance(error, Error) and states.get("migrations") == State.FAILED:
            return [_skipped(check, ["migrations"])]
        if isinstance(error, TimeoutError):
            found = f"No answer within {seconds:g} s."
        else:
            logger.debug("the check of %s failed", check.name, exc_info=True)
            found = f"The check failed: {type(error).__name__}: {first_line(error)}."
        return [failed(check.name, found, check.remedy)]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without a full stop."""
    lines = [line.strip().rstrip(".") for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


def _skipped(check: DiagnosticCheck, missing: list[str]) -> Finding:
    return warning(check.name, f"Not checked: it needs {' and '.join(missing)}.", f"Mend {missing[0]} first.")
