"""Checks whether SQLite's write lock is held, and stops processes while they do not hold it."""

import os
import signal
import sqlite3
from pathlib import Path

from tests.support.waiting import eventually


def refusal_to_write(database: str | Path) -> str:
    """Try to begin a write transaction, and return SQLite's error, or an empty string if there was none."""
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
    """Stop processes while none of them is writing.

    A process that is stopped during a write keeps the lock, so that no process can write, and none can be
    declared dead, until it continues.
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
