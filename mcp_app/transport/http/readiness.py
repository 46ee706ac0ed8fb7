"""Answers readiness probes: whether this server process should receive requests.

The process checks its databases, this app's tables and the broker at most once a second, however
many probes arrive. Each check runs in a thread of its own for at most `READY_TIMEOUT`, so that a
database that does not answer delays neither the probe nor the site. The response names the failed
check; the reason is in the log only.
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
from mcp_app.diagnosis.examination import Finding, State, failed, first_line, has_failed, ok
from mcp_app.models import Process
from mcp_app.transport.process.threads import SilentDatabaseError, Threads
from mcp_app.transport.server import existing

logger = logging.getLogger(__name__)

KEPT_SECONDS: Final = 1.0
"""How long an outcome is reused."""
SERVING: Final = "serving"
"""The check that this process accepts new requests. It fails while the process drains."""

Answer = tuple[int, dict[str, Any]]
"""An HTTP status, and the JSON body: names of checks with their states."""

LIVE: Final[Answer] = (200, {"live": True})


async def ready() -> Answer:
    """Return 200 if this process is ready for requests, otherwise 503.

    It is ready if it does not drain and reaches its databases, tables and broker.
    """
    if _drains():
        return _answer([failed(SERVING, "It drains.", "")])
    return _answer([ok(SERVING, "It does."), *await readiness().findings()])


@cache
def readiness() -> "Readiness":
    """Return the `Readiness` of this process."""
    return Readiness()


class Readiness:
    """The last findings and the running check, shared by all event loops of a process."""

    def __init__(self) -> None:
        # A thread for each, so that one check that hangs does not hide the others.
        self._checks: tuple[tuple[str, Callable[[], list[Finding]], Threads], ...] = tuple(
            (name, check, Threads(f"ready-{name}", 1, patience=settings.READY_TIMEOUT))
            for name, check in (
                (database.NAME, database.check_quickly),
                (migrations.NAME, self._check_migrations),
                (broker.NAME, broker.check_quickly),
            )
        )
        self._running: dict[asyncio.AbstractEventLoop, asyncio.Task[list[Finding]]] = {}
        self._found: list[Finding] = []
        self._found_at = float("-inf")
        self._failed: dict[str, Finding] = {}
        self._migrated = False

    async def findings(self) -> list[Finding]:
        """Return the findings of the last second, or check again."""
        if time.monotonic() - self._found_at < KEPT_SECONDS:
            return self._found
        loop = asyncio.get_running_loop()
        if loop not in self._running:
            self._running[loop] = loop.create_task(self._check(), name="mcp-ready")
            self._running[loop].add_done_callback(lambda _: self._running.pop(loop))
        # Shielded, because other probes wait for the same check.
        return await asyncio.shield(self._running[loop])

    async def close(self) -> None:
        """End its threads and their database connections."""
        await asyncio.gather(*(threads.close() for _, _, threads in self._checks))

    async def _check(self) -> list[Finding]:
        parts = await asyncio.gather(*(_checked(*check) for check in self._checks))
        found = [finding for part in parts for finding in part]
        if any(finding.name == database.NAME and finding.state == State.FAILED for finding in found):
            # Without the database nothing is known about its tables.
            found = [finding for finding in found if finding.name != migrations.NAME]
        self._found, self._found_at = found, time.monotonic()
        self._log_changes(found)
        return found

    def _check_migrations(self) -> list[Finding]:
        """Check the migrations. Once all were applied, only check that this app's tables exist."""
        try:
            if self._migrated:
                Process.objects.exists()
                return [ok(migrations.NAME, "All are applied.")]
            found = migrations.all_applied()
        except Error as error:
            found = [failed(migrations.NAME, first_line(error), "")]
        self._migrated = not has_failed(found)
        return found

    def _log_changes(self, found: Iterable[Finding]) -> None:
        """Log checks that have begun to fail, or to pass again."""
        failing = {finding.name: finding for finding in found if finding.state == State.FAILED}
        for name in failing.keys() - self._failed.keys():
            logger.error("not ready: %s: %s", name, failing[name].found)
        for name in self._failed.keys() - failing.keys():
            logger.warning("ready again: %s", name)
        self._failed = failing


async def _checked(name: str, check: Callable[[], list[Finding]], threads: Threads) -> list[Finding]:
    try:
        return await threads.run(check)
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
