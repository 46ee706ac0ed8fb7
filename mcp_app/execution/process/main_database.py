"""How a worker's main process uses the database although it forks.

If a SQLite connection is open during a fork, the new process has wrong ideas about its locks. And
Celery's main process forks whenever its pool needs a process. So each visit to the database takes a
lock that a fork waits for, and closes its connections at the end. Connections that Celery opened in
the forking thread are closed before the fork.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

_visit = threading.RLock()


@contextmanager
def visit() -> Iterator[None]:
    """Use the database in the block, in the worker's main process."""
    with _visit:
        try:
            yield
        finally:
            connections.close_all()


def guard_forks() -> None:
    """Make every later fork wait for the current visit.

    Called once, in the worker's main process.
    """
    main = os.getpid()

    def before() -> None:
        if os.getpid() == main:
            _visit.acquire()
            connections.close_all()

    def in_parent() -> None:
        if os.getpid() == main:
            _visit.release()

    os.register_at_fork(before=before, after_in_parent=in_parent)
