"""The commands of docs/how-to/upkeep.md, "Backup" and "Restore": a site is saved under load and restored elsewhere."""

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.acceptance.situations import STEP
from tests.acceptance.test_tasks import create
from tests.docs.pages import snippet
from tests.support.site.inspector import ROOT, Row
from tests.support.site.layouts import apart
from tests.support.site.services import SERVER, only_on_postgresql
from tests.support.site.stack import SETTINGS, SLOTS_OF_A_WORKER, Stack
from tests.support.site.wire import text
from tests.support.waiting import eventually

BLOCKS: Final = {
    "backup sqlite": snippet("how-to/upkeep.md#backup"),
    "backup postgresql": snippet("how-to/upkeep.md#backup:2"),
    "restore sqlite": snippet("how-to/upkeep.md#restore"),
    "restore postgresql": snippet("how-to/upkeep.md#restore:2"),
    "restore both": snippet("how-to/upkeep.md#restore:3"),
}
BUSY: Final = 600.0
"""Duration in seconds of a call that runs until the test cancels it."""
COMMAND_SECONDS: Final = 300.0
SETTLING: Final = 60.0

pytestmark = pytest.mark.timeout(1800)


@dataclass(frozen=True)
class Place:
    """The data folder and engines of a site, with the variables that the page's commands use."""

    data: Path
    engines: Mapping[str, str]

    @property
    def kind(self) -> str:
        return "postgresql" if self.engines else "sqlite"

    @property
    def environment(self) -> dict[str, str]:
        url = self.engines.get("MCPSITE_DATABASE", "")
        return {
            **os.environ,
            **self.engines,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "MCPSITE_DATA": str(self.data),
            "MCPSITE_SECRET_KEY": "kept apart",
            "DATA": str(self.data),
            "DATABASE_URL": url,
            "MAINTENANCE_URL": f"{SERVER}/postgres",
            "NAME": urlsplit(url).path.lstrip("/"),
        }

    def run(self, commands: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "-euc", commands],
            cwd=ROOT,
            env=self.environment | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def follow_the_page(self, what: str, backup: Path) -> str:
        done = self.run(commands_of(what), BACKUP=str(backup))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def verify(self, *options: str, **more: str) -> tuple[int, set[str], str]:
        """Verify the audit. Return the exit status, the kinds of findings, and the head."""
        done = self.run(f"python manage.py mcp audit verify --json {' '.join(options)}", **more)
        told = json.loads(done.stdout)
        return done.returncode, {finding["kind"] for finding in told["findings"]}, told["head"]


def commands_of(what: str) -> str:
    """Return the page's block that has this name."""
    return BLOCKS[what].text


@contextmanager
def beside(place: Place, data: Path) -> Iterator[Place]:
    """Yield a place for the restored site, with the same broker. Its database does not exist yet."""
    data.mkdir()
    if not place.engines:
        yield Place(data, {})
        return
    import psycopg

    name = f"mcp_acceptance_{secrets.token_hex(8)}"
    try:
        yield Place(data, {**place.engines, "MCPSITE_DATABASE": f"{SERVER}/{name}"})
    finally:
        with psycopg.connect(f"{SERVER}/postgres", autocommit=True) as admin:
            admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


@contextmanager
def clients_that_leave(site: Stack) -> Iterator[None]:
    """Make calls one after another that are cancelled by a disconnect, and so audited."""
    ending = threading.Event()

    def leave() -> None:
        while not ending.wait(STEP):
            site.call("echo", text="x").reset()

    thread = threading.Thread(target=leave)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def sealed_head(place: Place, site: Stack) -> str:
    """Wait until all of the audit is sealed, assert that it is unchanged, and return its head."""
    eventually(lambda: not site.ask("unsealed"), "what is final is sealed", SETTLING)
    status, findings, head = place.verify()
    assert (status, findings) == (0, set())
    return head


def cancelled(site: Stack, row: Row) -> None:
    site.ask("cancel", request_id=row.id, reason="it has run for long enough")
    eventually(lambda: (found := site.inspector.row(id=row.id)) and found.ended, "it ends", SETTLING)


def assert_ended(site: Stack, rows: Sequence[Row], status: str) -> None:
    """Assert that the restore has closed these requests with that status."""
    for row in rows:
        found = site.inspector.row(id=row.id)
        assert found is not None
        assert (found.status, found.cancel_cause) == (status, "admin")
        assert found.cancel_reason == "restored from a backup"


def test_what_is_restored_runs_nothing_twice_and_says_what_is_true(engines: dict[str, str], tmp_path: Path) -> None:
    if engines:
        only_on_postgresql()
    first, backup = Place(tmp_path / "first", engines), tmp_path / "backup"
    first.data.mkdir()
    waited, later, fresh = (tmp_path / name for name in ("waited", "later", "fresh"))
    secret = {"MCPSITE_SECRET_KEY": first.environment["MCPSITE_SECRET_KEY"]}
    with apart(first.data, {**engines, **secret}, workers=1) as site:
        running = []
        for number in range(SLOTS_OF_A_WORKER):
            path = tmp_path / f"running-{number}"
            running.append(create(site, "step_as_task", seconds=BUSY, path=str(path), step=STEP)[1])
            eventually(path.exists, "it takes a step")
        queued = create(site, "step_as_task", seconds=STEP, path=str(waited), step=STEP)[1]
        with clients_that_leave(site):
            eventually(lambda: site.ask("attempts") > 5, "some have left", SETTLING)
            first.follow_the_page(f"backup {first.kind}", backup)
        assert not waited.exists()
        for row in running:
            cancelled(site, row)
        eventually(waited.exists, "what waited runs after the backup", SETTLING)
        unknown = site.row(counted := site.call("count", path=str(later)))
        assert text(counted.result()) == "counted"
        newest = sealed_head(first, site)

    with beside(first, tmp_path / "second") as second:
        second.follow_the_page(f"restore {second.kind}", backup)
        assert second.verify("--head", newest)[:2] == (1, {"cut"})
        second.follow_the_page("restore both", backup)
        status, findings, restored = second.verify()
        assert (status, findings) == (0, set())
        status, findings, _ = second.verify(MCPSITE_SECRET_KEY="another")
        assert status == 1
        assert "changed" in findings

        ran = {path: path.read_text() for path in (waited, later)}
        with apart(second.data, {**second.engines, **secret}, workers=1) as site:
            assert_ended(site, running, "lost")
            assert_ended(site, [queued], "cancelled")
            assert not site.ask("open requests")
            assert site.inspector.row(id=unknown.id) is None

            for row in (*running, queued, unknown):
                site.ask("publish", request_id=row.id)
            assert text(site.call("count", path=str(fresh)).result()) == "counted"
            assert {path: path.read_text() for path in ran} == ran
            assert site.inspector.row(id=unknown.id) is None
            sealed_head(second, site)
            assert second.verify("--head", restored)[:2] == (0, set())
            assert second.verify("--head", newest)[0] == 1
