"""What is said to the database and to Redis, counted by who says it: shapes of statements, names of commands."""

import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

Said = Counter[tuple[str, str]]
"""How often, by role and shape."""

_SHAPES = (
    re.compile(r'(?P<verb>INSERT INTO|DELETE FROM) "?(?P<table>\w+)', re.IGNORECASE),
    re.compile(r'(?P<verb>UPDATE) "?(?P<table>\w+)"? SET', re.IGNORECASE),
    re.compile(r'(?P<verb>SELECT)\b.*? FROM "?(?P<table>\w+)', re.IGNORECASE),
)
SHAPE_CHARS = 60


def shape(statement: str) -> str:
    """The verb and the table; of a statement that has none its beginning. With `WITH` what it comes down to."""
    if statement.upper().startswith("WITH"):
        written = {_named(found) for pattern in _SHAPES[:2] for found in pattern.finditer(statement)}
        return f"WITH {', '.join(sorted(written))}"
    found = next(filter(None, (pattern.match(statement) for pattern in _SHAPES)), None)
    return _named(found) if found else statement[:SHAPE_CHARS]


def _named(found: re.Match[str]) -> str:
    table = re.sub(r"_\d+$", "", found["table"])  # a view of a connection's own may have a number
    return f"{found['verb'].upper()} {table}"


@contextmanager
def redis_commands(url: str) -> Iterator[Counter[tuple[int, str]]]:
    """By the sender's port and the command's name, what is said to a Redis database while the block runs."""
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
            connection.ping()  # something to hear
            listener.join(timeout=5)


def by_role(heard: Mapping[tuple[int, str], int], roles: Mapping[int, str], otherwise: str) -> Said:
    """The same by role; `roles` by what `heard` is counted by."""
    said: Said = Counter()
    for (sender, name), times in heard.items():
        said[roles.get(sender, otherwise), name] += times
    return said
