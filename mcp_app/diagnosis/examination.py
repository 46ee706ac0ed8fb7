"""The looks, one after the other, each in a thread of its own and for a bounded time.

A look that fails, or does not end, is a finding like any other, and what stands on what has failed is not looked at.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from django.db import Error, connections

from mcp_app.diagnosis.findings import Finding, State, failed, warning
from mcp_app.diagnosis.presences import ANSWER_SECONDS, Presence, ask
from mcp_app.lifecycle import processes
from mcp_app.lifecycle.broker import SilentBrokerError
from mcp_app.lifecycle.processes import Vouched
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)

R = TypeVar("R")

LOOK_SECONDS: Final = 5.0
"""What one look may take unless somebody says otherwise."""
LEAST_LOOK: Final = ANSWER_SECONDS + 0.5
"""What it must be given: workers are always waited for."""


class Seen:
    """What several looks of one examination need, asked once."""

    @cached_property
    def presences(self) -> list[Presence] | None:
        """The workers that answer over the broker; None where the broker takes no question."""
        try:
            return ask()
        except SilentBrokerError as error:
            logger.debug("workers could not be asked: %s", error)
            return None

    @cached_property
    def workers(self) -> list[Vouched]:
        """The workers that did not say that they stopped. Raises django.db.Error."""
        return processes.vouched_for(ProcessRole.WORKER)


@dataclass(frozen=True, slots=True)
class Look:
    """One thing to look at: what it is called, as its findings are; how; what to do where the look itself fails; and
    which others it stands on."""

    name: str
    find: Callable[[Seen], Iterable[Finding]]
    remedy: str
    needs: frozenset[str] = frozenset()


def examine(looks: Iterable[Look], seconds: float = LOOK_SECONDS) -> Iterator[Finding]:
    """Look at these, in their order, each for so many seconds at most; a finding is given as soon as it is there."""
    seen = Seen()
    states: dict[str, State] = {}
    for look in looks:
        missing = sorted(need for need in look.needs if states.get(need) == State.FAILED)
        findings = [_not_looked_at(look, missing)] if missing else _look(look, seen, seconds, states)
        for finding in findings:
            if states.get(finding.name) != State.FAILED:
                states[finding.name] = finding.state
            yield finding


def within(seconds: float, function: Callable[[], R]) -> R:
    """What `function` returns, called in a thread with database connections of its own.

    Raises TimeoutError where it takes longer: its thread is left behind, and keeps no process from ending.
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


def _look(look: Look, seen: Seen, seconds: float, states: dict[str, State]) -> list[Finding]:
    try:
        return within(seconds, lambda: list(look.find(seen)))
    except Exception as error:
        if isinstance(error, Error) and states.get("migrations") == State.FAILED:
            return [_not_looked_at(look, ["migrations"])]
        if isinstance(error, TimeoutError):
            said = f"No answer within {seconds:g} s."
        else:
            logger.debug("the look at %s failed", look.name, exc_info=True)
            said = f"It could not be looked at: {type(error).__name__}: {first_line(error)}."
        return [failed(look.name, said, look.remedy)]


def first_line(error: BaseException) -> str:
    """What an error says, for one line, without a full stop."""
    lines = [line.strip().rstrip(".") for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


def _not_looked_at(look: Look, missing: list[str]) -> Finding:
    return warning(look.name, f"Not looked at: it needs {' and '.join(missing)}.", f"Mend {missing[0]} first.")
