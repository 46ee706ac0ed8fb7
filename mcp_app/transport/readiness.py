"""Whether this server process is to be sent requests: what probes are told, and what that rests on.

However many ask, the process looks once at a time and once a second: one query for each database, one for this app's
tables, one word to the broker. Each waits in a thread of its own for `READY_TIMEOUT` at most, so that a database that
answers nothing holds up neither the answer nor the site. Refuses to tell strangers why: the log has it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from django.db import Error

from mcp_app.conf import settings
from mcp_app.diagnosis import broker, database, migrations
from mcp_app.diagnosis.examination import first_line
from mcp_app.diagnosis.findings import Finding, State, failed, has_failed, ok
from mcp_app.models import Process
from mcp_app.transport.server import existing
from mcp_app.transport.threads import SilentDatabaseError, Threads

logger = logging.getLogger(__name__)

KEPT_SECONDS: Final = 1.0
"""How long an outcome is told again."""
SERVING: Final = "serving"
"""The check that this process takes new requests: not once it drains."""

Answer = tuple[int, dict[str, Any]]
"""An HTTP status, and what is told as JSON: names and states, nothing else."""

LIVE: Final[Answer] = (200, {"live": True})


async def ready() -> Answer:
    """200 where this process drains not, and reaches its databases, their tables and the broker; else 503."""
    if _drains():
        return _answer([failed(SERVING, "It drains.", "")])
    return _answer([ok(SERVING, "It does."), *await readiness().findings()])


@cache
def readiness() -> "Readiness":
    """This process's."""
    return Readiness()


class Readiness:
    """What was found last, and the look under way. Belongs to a process, whatever its event loops."""

    def __init__(self) -> None:
        # A thread for each: what one waits for is no reason to know nothing of the others.
        self._looks: tuple[tuple[str, Callable[[], list[Finding]], Threads], ...] = tuple(
            (name, look, Threads(f"ready-{name}", 1, patience=settings.READY_TIMEOUT))
            for name, look in (
                (database.NAME, database.answers),
                (migrations.NAME, self._look_at_migrations),
                (broker.NAME, broker.answers),
            )
        )
        self._looking: dict[asyncio.AbstractEventLoop, asyncio.Task[list[Finding]]] = {}
        self._found: list[Finding] = []
        self._found_at = float("-inf")
        self._failed: dict[str, Finding] = {}
        self._migrated = False

    async def findings(self) -> list[Finding]:
        """As they were found within the last second, or are found now."""
        if time.monotonic() - self._found_at < KEPT_SECONDS:
            return self._found
        loop = asyncio.get_running_loop()
        if loop not in self._looking:
            self._looking[loop] = loop.create_task(self._look(), name="mcp-ready")
            self._looking[loop].add_done_callback(lambda _: self._looking.pop(loop))
        # Who asked may leave: others wait for the same look.
        return await asyncio.shield(self._looking[loop])

    async def close(self) -> None:
        """End its threads and their database connections."""
        await asyncio.gather(*(threads.close() for _, _, threads in self._looks))

    async def _look(self) -> list[Finding]:
        parts = await asyncio.gather(*(_asked(*look) for look in self._looks))
        found = [finding for part in parts for finding in part]
        if any(finding.name == database.NAME and finding.state == State.FAILED for finding in found):
            # Of its tables nothing is known.
            found = [finding for finding in found if finding.name != migrations.NAME]
        self._found, self._found_at = found, time.monotonic()
        self._tell_changes(found)
        return found

    def _look_at_migrations(self) -> list[Finding]:
        """Once all were applied it is enough that this app's tables are there: what is applied stays so."""
        try:
            if self._migrated:
                Process.objects.exists()
                return [ok(migrations.NAME, "All are applied.")]
            found = migrations.all_applied()
        except Error as error:
            found = [failed(migrations.NAME, first_line(error), "")]
        self._migrated = not has_failed(found)
        return found

    def _tell_changes(self, found: Iterable[Finding]) -> None:
        """Log what fails now and did not before, and the other way round: not what is so every second."""
        failing = {finding.name: finding for finding in found if finding.state == State.FAILED}
        for name in failing.keys() - self._failed.keys():
            logger.error("not ready: %s: %s", name, failing[name].found)
        for name in self._failed.keys() - failing.keys():
            logger.warning("ready again: %s", name)
        self._failed = failing


async def _asked(name: str, look: Callable[[], list[Finding]], threads: Threads) -> list[Finding]:
    try:
        return await threads.run(look)
    except SilentDatabaseError:
        return [failed(name, f"no answer within {settings.READY_TIMEOUT:g} s.", "")]
    except Exception as error:
        return [failed(name, f"{type(error).__name__}: {first_line(error)}.", "")]


def _drains() -> bool:
    server = existing()
    return server is not None and (server.stopped or server.admission.draining)


def _answer(findings: Iterable[Finding]) -> Answer:
    states: dict[str, str] = {}
    for finding in findings:
        if states.get(finding.name) != State.FAILED:
            states[finding.name] = State.FAILED if finding.state == State.FAILED else State.OK
    is_ready = State.FAILED not in states.values()
    return 200 if is_ready else 503, {"ready": is_ready, "checks": states}
