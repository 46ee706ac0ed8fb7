"""Counts SQL statements by their shape and Redis commands by their name, for each role of the sender."""

import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

Said = Counter[tuple[str, str]]
"""Counts by role and shape."""

_SHAPES = (
    re.compile(r'(?P<verb>INSERT INTO|DELETE FROM) "?(?P<table>\w+)', re.IGNORECASE),
    re.compile(r'(?P<verb>UPDATE) "?(?P<table>\w+)"? SET', re.IGNORECASE),
    re.compile(r'(?P<verb>SELECT)\b.*? FROM "?(?P<table>\w+)', re.IGNORECASE),
)
SHAPE_CHARS = 60


def shape(statement: str) -> str:
    """Return the verb and the table of a statement, or its beginning if it has none.

    The shape of a `WITH` statement contains the verbs and tables of the parts that write.
    """
    if statement.upper().startswith("WITH"):
        written = {_named(found) for pattern in _SHAPES[:2] for found in pattern.finditer(statement)}
        return f"WITH {', '.join(sorted(written))}"
    found = next(filter(None, (pattern.match(statement) for pattern in _SHAPES)), None)
    return _named(found) if found else statement[:SHAPE_CHARS]


def _named(found: re.Match[str]) -> str:
    table = re.sub(r"_\d+$", "", found["table"])  # a view of a single connection may have a number
    return f"{found['verb'].upper()} {table}"


@contextmanager
def redis_commands(url: str) -> Iterator[Counter[tuple[int, str]]]:
    """Count the commands that a Redis database receives while the block runs, by the sender's port and command name."""
    from redis import Redis

    database = int(urlsplit(url).path.lstrip("/") or 0)
    heard: Counter[tuple[int, str]] = Counter()
    with Redis.from_url(url) as connection, connection.monitor() as monitor:
        ended = threading.Event()

        def listen() -> None:
            for said in monitor.listen():
                if ended.is_set():
                    return
                if said["db"] == database:
                    heard[int(said["client_port"] or 0), said["command"].split()[0].upper()] += 1

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            yield heard
        finally:
            ended.set()
            connection.ping()  # a last command, which ends the loop
            listener.join(timeout=5)


def by_role(heard: Mapping[tuple[int, str], int], roles: Mapping[int, str], otherwise: str) -> Said:
    """Return the counts by role. `roles` has the role of each sender; other senders get `otherwise`."""
    said: Said = Counter()
    for (sender, name), times in heard.items():
        said[roles.get(sender, otherwise), name] += times
    return said
