"""Malformed messages that no client of this app sends. Each is a message for a tool with one part replaced."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final
from uuid import uuid4

from mcp_app.celery_adapter.broker import RUN_TASK

DELETED: Final = object()
VALUES: Final = (
    DELETED,
    None,
    True,
    5,
    -1.5,
    "",
    "x",
    "x" * 300,
    "\x00\ud800",
    [],
    ["a", "b"],
    [[], {}, {}],
    {},
    {"a": 1},
    {"__type__": "x"},
    {"__type__": "x", "__value__": 1},
    {"__type__": "datetime", "__value__": "never"},
)
"""Values that replace a part of a message."""

Envelope = dict[str, Any]


def envelope(request_id: str, queue: str, task: str = RUN_TASK) -> Envelope:
    """Return a message as Celery sends it and kombu stores it on Redis and in a folder. Its body is JSON text."""
    headers = {
        "lang": "py",
        "task": task,
        "id": request_id,
        "shadow": None,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": request_id,
        "parent_id": None,
        "argsrepr": repr((request_id,)),
        "kwargsrepr": "{}",
        "origin": "test",
        "ignore_result": False,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }
    return {
        "body": [[request_id], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}],
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": {
            "correlation_id": request_id,
            "reply_to": str(uuid4()),
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 0,
            "delivery_tag": str(uuid4()),
        },
    }


def unreadable(request_id: str, queue: str) -> Iterator[tuple[str, Envelope]]:
    """Return messages that name a request and cannot be read, by the kind of error."""
    triple = envelope(request_id, queue)["body"]
    bodies = {
        "two parts": triple[:2],
        "two words": ["a", "b"],
        "an object": {"__type__": "x"},
        "no object": {"__type__": "x", "__value__": 1},
        "a number": 5,
        "nothing": None,
        "no arguments": [[], *triple[1:]],
        "arguments of another kind": [5, *triple[1:]],
        "another request": [[str(uuid4())], *triple[1:]],
        "two requests": [[request_id, request_id], *triple[1:]],
        "keyword arguments": [triple[0], {"request_id": request_id}, triple[2]],
        "keyword arguments of another kind": [triple[0], 5, triple[2]],
        "callbacks of another kind": [*triple[:2], 5],
    }
    for what, body in bodies.items():
        yield what, {**envelope(request_id, queue), "body": body}
    foreign = envelope(request_id, queue)
    foreign["content-type"] = "application/x-python-serialize"
    yield "pickle", foreign
    for compression in ("gzip", "no such compression", 5):
        packed = envelope(request_id, queue)
        packed["headers"]["compression"] = compression
        yield f"compressed by {compression!r}", packed
    unknown = envelope(request_id, queue)
    unknown["content-encoding"] = "no such encoding"
    unknown["content-type"] = "text/plain"
    yield "an encoding that there is not", unknown


def nameless(queue: str) -> Iterator[Envelope]:
    """Return messages without a task name, whose bodies cannot be decoded."""
    for body in (None, [], "x"):
        made = envelope(str(uuid4()), queue)
        del made["headers"]["task"]
        made["headers"]["compression"] = "gzip"
        yield {**made, "body": body}


def harmless(request_id: str, queue: str) -> Iterator[tuple[str, Envelope]]:
    """Return messages that name a request and can be read, with Celery options that this app never sends."""
    for name, value in (
        ("timelimit", 5),
        ("timelimit", ["a", "b"]),
        ("eta", "never"),
        ("eta", "2999-01-01T00:00:00+00:00"),
        ("expires", [1]),
        ("expires", "2001-01-01T00:00:00+00:00"),
        ("stamped_headers", 5),
        ("shadow", {"a": 1}),
        ("retries", "x"),
        ("group", 5),
        ("chord", 5),
    ):
        made = envelope(request_id, queue)
        made["headers"][name] = value
        yield f"{name} {value!r}", made
    made = envelope(request_id, queue)
    made["body"][2] = {"callbacks": 5, "errbacks": "x", "chain": [1], "chord": 5}
    yield "callbacks", made


def at_random(seed: int, count: int, queue: str) -> Iterator[Envelope]:
    """Return messages for no request, with one to three parts of each replaced."""
    chance = random.Random(seed)
    for _ in range(count):
        made = envelope(str(uuid4()), queue)
        if chance.random() < 0.2:
            made["headers"]["compression"] = chance.choice(["gzip", "x", 5])
        for _ in range(chance.randint(1, 3)):
            _replace(made, chance)
        yield made


def text(made: Any) -> str:
    """Return a message as kombu's virtual transports store it."""
    if isinstance(made, dict) and not isinstance(made.get("body"), str | None):
        made = {**made, "body": json.dumps(made["body"])}
    return json.dumps(made)


def _replace(made: Envelope, chance: random.Random) -> None:
    """Replace a part, which may be nested."""
    where: Any = made
    while True:
        keys = list(where) if isinstance(where, dict) else range(len(where))
        if not keys:
            return
        key = chance.choice(list(keys))
        if isinstance(where[key], dict | list) and where[key] and chance.random() < 0.8:
            where = where[key]
            continue
        value = chance.choice(VALUES)
        if value is DELETED:
            del where[key]
        else:
            where[key] = deepcopy(value)
        return
