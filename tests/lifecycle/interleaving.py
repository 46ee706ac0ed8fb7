"""Run two steps in threads of their own, stopped before each of their statements. One goes on at a time.

A schedule chooses the next thread. A thread that waits for a lock of the other counts as stopped until it gets it. A
slow statement may be mistaken for such a wait. Then both threads go on, which is an interleaving like any other.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from django.db import connections

from mcp_app import databases
from tests.support.racing import PATIENCE

BLOCKED_AFTER = 0.02
"""Seconds in which a statement that waits for no lock ends on an idle machine."""


class _Stepped:
    """A step whose thread is stopped before its next statement, waits for a lock, or has ended."""

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
        """Run to the next statement or the end. Returns also if that takes too long."""
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
    """Return the results of both steps, and the number of statements of the first.

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
