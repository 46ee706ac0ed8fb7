"""Makes one fault at a time. Each is followed by its repair, so that the site remains able to serve.

Only the run's own processes are affected: each is a descendant of a program that the run started.
"""

import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import psutil

from tests.chaos import plan
from tests.chaos.kept import Kept, send
from tests.chaos.plan import Fault
from tests.chaos.site import Site
from tests.support.site import programs
from tests.support.site.own_engines import Engine

LONGEST_OUTAGE: Final = 4.0
PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Done:
    """A fault that was made. Times are Unix times."""

    fault: Fault
    began_at: float
    ended_at: float
    what: str


class Faults:
    """The thread that makes the faults."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site = site
        self._plan = plan.faults(seed, site.kind)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-faults", daemon=True)
        self.done: list[Done] = []
        self.problems: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait until the current fault has ended, and repair everything."""
        self._stopping.set()
        self._thread.join()
        for engine in self._site.engines:
            engine.thaw()
        for kept in self._site.kept:
            for process in kept.family():
                send(process.pid, signal.SIGCONT)

    def _run(self) -> None:
        for fault in self._plan:
            if self._stopping.wait(fault.pause):
                return
            began_at = time.time()
            try:
                what = self._make(fault)
            except (psutil.Error, AssertionError) as error:
                self.problems.append(f"fault {fault} could not be made: {error!r}")
                what = "failed"
            self.done.append(Done(fault, began_at, time.time(), what))

    def _make(self, fault: Fault) -> str:
        verb, thing = fault.kind.split(" ", 1)
        if thing.startswith("the "):
            return _TO_ENGINES[fault.kind](self, fault)
        kept, pid = self._target(thing, fault.target)
        if pid is None:
            return "nobody"
        if verb == "freeze":
            self._freeze(kept, pid, fault.seconds)
        else:
            if kept is not None and kept.lives[-1].told_to_end_at is None:  # it may be killed while it drains
                kept.lives[-1].told_to_end_at = time.time()
            send(pid, signal.SIGKILL if verb == "kill" else signal.SIGTERM)
        return f"{kept.name if kept else thing}, process {pid}: {programs.command_line(pid)[-60:]}"

    def _target(self, thing: str, number: int) -> tuple[Kept | None, int | None]:
        if thing == "a server":
            kept = self._site.kept_servers[number % len(self._site.kept_servers)]
            return kept, None if kept.program.ended else kept.program.pid
        mains = self._site.worker_mains()
        if not mains:
            return None, None
        main = mains[number % len(mains)]
        owner = next((kept for kept in self._site.kept_workers if kept.program.pid == main), None)
        if thing == "a worker":
            return owner, main
        with suppress(psutil.NoSuchProcess):
            children = sorted(psutil.Process(main).children(), key=lambda each: each.pid)
            if children:
                return None, children[number // len(mains) % len(children)].pid
        return None, None

    def _freeze(self, kept: Kept | None, pid: int, seconds: float) -> None:
        began_at = time.time()
        send(pid, signal.SIGSTOP)
        self._stopping.wait(seconds)
        send(pid, signal.SIGCONT)
        if kept is not None:
            kept.frozen.append((began_at, time.time()))

    def _stop_engine(self, which: str, how: str, fault: Fault) -> str:
        engine = self._engine(which)
        getattr(engine, how)()
        self._stopping.wait(min(fault.seconds, LONGEST_OUTAGE))
        engine.start()
        return f"port {engine.port}"

    def _freeze_engine(self, which: str, fault: Fault) -> str:
        engine = self._engine(which)
        engine.freeze()
        self._stopping.wait(min(fault.seconds, LONGEST_OUTAGE))
        engine.thaw()
        return f"port {engine.port}"

    def _cut_connections(self, fault: Fault) -> str:
        import psycopg

        engine = self._engine("database")
        with psycopg.connect(engine.url, autocommit=True, connect_timeout=10) as connection:
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND client_port IS NOT NULL"
            ).fetchone()
        return f"{ended and ended[0]} connections"

    def _lock(self, name: str, fault: Fault) -> str:
        """Hold SQLite's write lock, as a long transaction would."""
        other = sqlite3.connect(self._site.data / name, timeout=20, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            self._stopping.wait(min(fault.seconds, LONGEST_OUTAGE))
            other.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            return f"{name}: {error}"
        finally:
            other.close()
        return name

    def _litter(self, fault: Fault) -> str:
        """Put an invalid or incomplete message into a queue of the embedded broker."""
        places = sorted((self._site.data / "broker" / "queues").glob("*/new"))
        if not places:
            return "no queue"
        place = places[fault.target % len(places)]
        name = f"{time.time_ns():020d}-0000000000-{fault.number:032x}"
        (place / name).write_bytes((b"", b'{"body": "', b"\xff" * 100)[fault.number % 3])
        return str(place.parent.name)

    def _engine(self, which: str) -> Engine:
        engine = self._site.broker if which == "broker" else self._site.database
        assert engine is not None
        return engine


_TO_ENGINES: Final[Mapping[str, Callable[[Faults, Fault], str]]] = {
    "lock the rows": lambda faults, fault: faults._lock("mcp.sqlite3", fault),
    "lock the site": lambda faults, fault: faults._lock("site.sqlite3", fault),
    "litter the broker": Faults._litter,
    "cut the database": Faults._cut_connections,
    **{
        f"{how} the {which}": partial(
            lambda which, how, faults, fault: faults._stop_engine(which, how, fault), which, how
        )
        for which in ("broker", "database")
        for how in ("stop", "kill")
    },
    **{
        f"freeze the {which}": partial(lambda which, faults, fault: faults._freeze_engine(which, fault), which)
        for which in ("broker", "database")
    },
}
