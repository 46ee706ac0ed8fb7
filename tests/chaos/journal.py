"""Records the work of tools in files, which no database, broker or rollback can undo.

Each request has one file, to which lines are appended:

    begin <tag> <pid> <unix time>     the body was entered
    step <unix time>                  it still runs
    once <unix time>                  its side effect
    end <unix time>                   it came to its own end

A line is written by one `write(2)` to a file that is opened for appending, so a killed process leaves whole lines.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = "journal"
TAGS: Final = "tags"
"""The folder of links from a caller's own name for its call to the request's id. The running tool makes the link."""


def note(path: Path, *words: object) -> None:
    """Append one line that ends with the time."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, " ".join(map(str, (*words, repr(time.time())))).encode() + b"\n")
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Entry:
    """One request's file."""

    request_id: str
    tag: str
    begins: int
    onces: int
    ends: int
    last_at: float
    """The time at which the file last grew, by the file system's clock."""


def read(folder: Path) -> dict[str, Entry]:
    """Return the entry of every request by its id."""
    return {path.name: _entry(path) for path in folder.iterdir()}


def _entry(path: Path) -> Entry:
    lines = [line.split() for line in path.read_text().splitlines()]
    words = [line[0] for line in lines]
    tag = next((line[1] for line in lines if line[0] == "begin"), "")
    return Entry(
        path.name, tag, words.count("begin"), words.count("once"), words.count("end"), path.stat().st_mtime_ns / 1e9
    )
