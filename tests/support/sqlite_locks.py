"""Who holds SQLite's write lock: whether somebody does, and processes that stand still without it."""

import os
import signal
import sqlite3
from pathlib import Path

from tests.support.waiting import eventually


def refusal_to_write(database: str | Path) -> str:
    """What SQLite says to one more who wants to write; empty where nobody else does."""
    other = sqlite3.connect(database, timeout=0, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        return str(error)
    finally:
        other.close()
    return ""


def stand_still(database: Path, *pids: int) -> None:
    """Stop processes between their writes: one that stands still inside of one keeps the lock from everybody, and
    nobody can be given up until it goes on.
    """

    def stopped_between_writes() -> bool:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        if not (database.exists() and refusal_to_write(database)):
            return True
        go_on(*pids)
        return False

    eventually(stopped_between_writes, "a moment between writes")


def go_on(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
