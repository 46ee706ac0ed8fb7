"""Two steps in threads of their own, stopped before each of their statements: one of them goes on at a time.

Which one, a schedule says. One that waits for a lock of the other's counts as stopped there until it comes on; taking a
slow statement for such a one only lets both go on, which is an interleaving like any other.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from django.db import connections

from mcp_app import databases
from tests.lifecycle.racing import PATIENCE

BLOCKED_AFTER = 0.02
"""Seconds in which a statement that waits for nobody is done on an idle machine."""


class _Stepped:
    """A step whose thread stands before its next statement, or has ended, or waits for a lock."""

    def __init__(self, step: Callable[[], Any]) -> None:
        self._step = step
        self._moved = threading.Condition()
        self._may_go = False
        self.is_standing = False
        self.has_ended = False
        self.statements = 0
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def go(self) -> None:
        """To the next statement or the end; returns as well where that takes too long."""
        with self._moved:
            self._may_go, self.is_standing = True, False
            self._moved.notify_all()
        self.settle(BLOCKED_AFTER)

    def settle(self, seconds: float) -> bool:
        with self._moved:
            return self._moved.wait_for(lambda: self.is_standing or self.has_ended, seconds)

    def result(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it waits for ever"
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            with databases.connection().execute_wrapper(self._stand):
                self._result = self._step()
        except BaseException as error:
            self._error = error
        finally:
            connections.close_all()
            with self._moved:
                self.has_ended = True
                self._moved.notify_all()

    def _stand(self, execute: Callable[..., Any], *statement: Any) -> Any:
        with self._moved:
            self.statements += 1
            self.is_standing = True
            self._moved.notify_all()
            assert self._moved.wait_for(lambda: self._may_go, PATIENCE), "nobody lets it go on"
            self._may_go = False
        return execute(*statement)


def interleave(first: Callable[[], Any], second: Callable[[], Any], schedule: Iterable[bool]) -> tuple[Any, Any, int]:
    """What both returned, and how many statements the first has had.

    Each of `schedule` lets one statement go on, of the second where it is true; after its end the first goes on before
    the second.
    """
    steps = [_Stepped(first), _Stepped(second)]
    turns = iter(schedule)
    for step in steps:
        step.settle(BLOCKED_AFTER)
    while not all(step.has_ended for step in steps):
        standing = [step for step in steps if step.is_standing]
        wanted = steps[next(turns, False)]
        if wanted in standing:
            wanted.go()
        elif standing:
            standing[0].go()
        else:
            next(step for step in steps if not step.has_ended).settle(BLOCKED_AFTER)
    return steps[0].result(), steps[1].result(), steps[0].statements
