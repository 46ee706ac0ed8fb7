"""Finds leftovers: processes, connections, locks, messages in queues, groups and files.

The check is made once the site is quiet, and again after the site was stopped.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.chaos.rows import Rows
from tests.chaos.site import Site
from tests.support.site import own_engines, programs

if TYPE_CHECKING:
    import psycopg

MARKER: Final = "MCP_REQUEST="
GROUP_EXPIRY: Final = 86_400
UNACKED: Final = frozenset({"unacked", "unacked_index"})
"""The messages that a killed worker had fetched and not started. kombu returns them to the queue after an hour, when
their requests cannot be claimed any more. The name of a killed worker's control queue stays in Redis, too.
"""
MESSAGE_EXPIRY: Final = 60
"""The default of channels-redis, in seconds."""


def while_it_runs(site: Site, shape: Counter[str]) -> Iterator[str]:
    """Find everything that an idle site would not have. `shape` counts its processes at the beginning of the run."""
    yield from _of_requests(site)
    now = processes(site)
    if now != shape:
        yield f"its processes were {dict(shape)}, and are {dict(now)}"
    if site.database is not None:
        yield from _transactions(site.database.url)
    yield from _queues(site, running=True)
    yield from _groups(site)


def afterwards(site: Site) -> Iterator[str]:
    """Find everything that is left after the site was stopped."""
    for pid in sorted(programs.processes_of(site.data)):
        yield f"a process is left: {pid} {programs.command_line(pid)}"
    yield from _of_requests(site)
    if site.database is not None:
        yield from _connections(site.database.url)
    yield from _queues(site, running=False)
    yield from _groups(site)
    for path in sorted(site.temporary.rglob("*")):
        yield f"a temporary file is left: {path.relative_to(site.data)}, made at {path.stat().st_mtime:.1f}"
    for name in _drafts(site.data):
        yield f"a draft is left: {name}"


def processes(site: Site) -> Counter[str]:
    """Count the site's processes of each kind."""
    mains = set(site.worker_mains())
    found: Counter[str] = Counter()
    spare = {site.inspector.pid} if site.has_inspector else set()
    tops = {kept.program.pid for kept in site.kept}
    for pid in programs.processes_of(site.data) - spare:
        found["program" if pid in tops else "worker" if pid in mains else f"child: {_kind(pid)}"] += 1
    return found


def _kind(pid: int) -> str:
    line = programs.command_line(pid)
    return "of the pool" if "mcp worker" in line else line[-80:]


def _of_requests(site: Site) -> Iterator[str]:
    """Find processes that tools started. Their environment contains the request's marker and the site's data folder."""
    for pid in sorted(programs.processes_of(site.data)):
        try:
            entries = Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        marks = [entry.decode() for entry in entries if entry.startswith(MARKER.encode())]
        if marks:
            yield f"process {pid} of {marks[0]} is left: {programs.command_line(pid)}"


def _transactions(url: str) -> Iterator[str]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        open_ones = connection.execute(
            "SELECT pid, state, left(query, 80) FROM pg_stat_activity"
            " WHERE client_port IS NOT NULL AND pid <> pg_backend_pid() AND state <> 'idle'"
        ).fetchall()
        held = connection.execute(
            "SELECT locktype, mode, pid FROM pg_locks WHERE pid <> pg_backend_pid() AND locktype <> 'virtualxid'"
        ).fetchall()
        nobodys = _nobodys(connection)
        time.sleep(1.0)
        nobodys &= _nobodys(connection)  # a connection that was closed between the two queries belonged to a process
    for row in open_ones:
        if row[1] != "active":
            yield f"a transaction stays open: {row}"
    for row in held:
        if row[0] == "advisory":
            yield f"an advisory lock is held: {row}"
    if nobodys:
        yield f"{len(nobodys)} connections to the database belong to no process: ports {sorted(nobodys)}"


def _nobodys(connection: "psycopg.Connection") -> set[int]:
    """Return the client ports of connections that belong to no process of this machine."""
    rows = connection.execute(
        "SELECT client_port FROM pg_stat_activity WHERE client_port IS NOT NULL AND pid <> pg_backend_pid()"
    ).fetchall()
    return {port for (port,) in rows if not programs.inodes_of_port(port)}


def _connections(url: str) -> Iterator[str]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid, state, left(query, 80) FROM pg_stat_activity"
            " WHERE client_port IS NOT NULL AND pid <> pg_backend_pid()"
        ).fetchall()
    for row in rows:
        yield f"a connection to the database is left: {row}"


def _queues(site: Site, *, running: bool) -> Iterator[str]:
    if site.kind == "embedded":
        yield from _folders(site.data / "broker", workers=site.expected_workers if running else 0)
    elif site.kind == "redis":
        yield from _keys(site, workers=site.expected_workers if running else 0)
    else:
        yield from _amqp(site, workers=site.expected_workers if running else 0)


def _folders(broker: Path, *, workers: int) -> Iterator[str]:
    boxes = []
    for queue in (broker / "queues").iterdir():
        waiting = len(list((queue / "new").glob("*"))) + len(list((queue / "cur").glob("*")))
        if waiting:
            yield f"{waiting} messages wait in {queue.name}"
        if "pidbox" in queue.name:
            boxes.append(queue.name)
    if len(boxes) > workers:
        yield f"{len(boxes)} control queues for {workers} workers: {boxes}"
    drafts = list((broker / "tmp").iterdir())
    if drafts:
        yield f"{len(drafts)} drafts of messages are left"


def _keys(site: Site, *, workers: int) -> Iterator[str]:
    import redis

    assert site.broker is not None
    with redis.Redis.from_url(site.broker.url) as store:
        for key in sorted(store.keys("*")):
            name = key.decode()
            kind = store.type(key).decode()
            size = {"list": store.llen, "set": store.scard, "zset": store.zcard, "hash": store.hlen}.get(kind)
            count = size(key) if size is not None else 1
            if name.endswith(".pidbox") and name.startswith("_kombu.binding"):
                if count > workers + site.killed_workers:
                    yield f"{name} names {count} control queues for {workers} workers"
            elif name in UNACKED and site.killed_workers:
                continue
            elif not name.startswith(("_kombu.binding", "asgi")):
                yield f"the key {name} ({kind}) is left with {count} members"


def _amqp(site: Site, *, workers: int) -> Iterator[str]:
    assert site.broker is not None
    found = own_engines.queues(site.broker)
    for name, messages in found.items():
        if messages:
            yield f"{messages} messages wait in {name}"
    boxes = [name for name in found if "pidbox" in name]
    if len(boxes) > workers:
        yield f"{len(boxes)} control queues for {workers} workers: {boxes}"


def _groups(site: Site) -> Iterator[str]:
    """Check the channel layer's keys. Each must expire, because a killed server cannot leave its group.

    A server that recorded its stop must have left its group.
    """
    if site.kind != "redis":
        return
    import redis

    assert site.broker is not None
    stopped = Rows.read(site.environment).stopped
    with redis.Redis.from_url(site.broker.url) as store:
        for key in sorted(store.keys("asgi*")):
            name, expires_in = key.decode(), store.ttl(key)
            if not 0 < expires_in <= (GROUP_EXPIRY if "group" in name else MESSAGE_EXPIRY):
                yield f"the channel layer keeps {name} (expires in {expires_in} s)"
            elif "group" in name and stopped.get(name.rpartition(".")[2], True):
                yield f"the channel layer keeps {name}, of a server that has stopped"


def _drafts(data: Path) -> list[str]:
    """Return the site's own files that have a temporary name."""
    return [name for name in os.listdir(data) if name.startswith(("tmp", ".")) and name != "tmp"]
