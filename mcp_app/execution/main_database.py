"""The worker's main process and the database: short visits that leave no connection behind for a fork.

A SQLite connection that is open across a fork gives the child a false idea of the locks it holds, and Celery's main
process forks whenever the pool needs a child. So visits take a lock that a fork waits for, and close what they opened;
what Celery itself opened in the forking thread is closed before the fork.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

_visit = threading.RLock()


@contextmanager
def visit() -> Iterator[None]:
    """A visit to the database from the worker's main process."""
    with _visit:
        try:
            yield
        finally:
            connections.close_all()


def guard_forks() -> None:
    """Have every later fork of this process wait for the visit under way. Once, in the worker's main process."""
    main = os.getpid()

    def before() -> None:
        if os.getpid() == main:
            _visit.acquire()
            connections.close_all()

    def in_parent() -> None:
        if os.getpid() == main:
            _visit.release()

    os.register_at_fork(before=before, after_in_parent=in_parent)
