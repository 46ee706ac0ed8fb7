"""Writes that threads of one process want at one moment, made as one: a group commit.

While one thread writes, those that come wait, and the first of them writes for all. Each has its own outcome: where
what was to be written together fails, everybody writes alone. Refuses to wait for others: who comes alone writes.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST = 50
"""Written together: a transaction that holds up no other writer for long."""


class _Waiting(Generic[T, R]):
    """One thread's value: handed on when it was written for it, failed, or is its own thread's to write."""

    def __init__(self, value: T) -> None:
        self.value = value
        self.written: list[R] = []
        self.leads = False
        self.moved = threading.Event()


class Together(Generic[T, R]):
    """`write` writes many or none, and gives what became of each; it is called by one thread at a time with several.

    `write_alone` writes one; it may insist, and says by itself when it was written before: what failed as its answer
    was lost is written again.
    """

    _waiting: list[_Waiting[T, R]]
    _is_led: bool

    def __init__(self, write: Callable[[Sequence[T]], Sequence[R]], write_alone: Callable[[T], R]) -> None:
        self._write = write
        self._write_alone = write_alone
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # who led is not in the child

    def put(self, value: T) -> R:
        """What became of this one. Raises what `write_alone` raises."""
        own: _Waiting[T, R] = _Waiting(value)
        with self._lock:
            self._waiting.append(own)
            own.leads = not self._is_led
            self._is_led = True
        if not own.leads:
            self._wait(own)
        if own.leads:
            return self._lead(own)
        return own.written[0] if own.written else self._write_alone(value)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting = []
        self._is_led = False

    def _wait(self, own: _Waiting[T, R]) -> None:
        try:
            own.moved.wait()
        except BaseException:  # an interrupt: who is gone must not be left to lead
            with self._lock:
                if own in self._waiting:
                    self._waiting.remove(own)
                if own.leads:
                    self._appoint()
            raise

    def _lead(self, own: _Waiting[T, R]) -> R:
        """Write for all that wait, this thread's first of all, and leave what has come meanwhile to the next."""
        with self._lock:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        try:
            if len(batch) == 1:
                return self._write_alone(own.value)
            for each, written in zip(batch, self._write([each.value for each in batch]), strict=True):
                each.written.append(written)
        except Exception:
            if len(batch) == 1:
                raise
        finally:
            self._pass_on(batch)
        return own.written[0] if own.written else self._write_alone(own.value)

    def _pass_on(self, batch: Sequence[_Waiting[T, R]]) -> None:
        with self._lock:
            self._appoint()
        for each in batch:
            each.moved.set()

    def _appoint(self) -> None:
        """Have the first that waits lead."""
        self._is_led = bool(self._waiting)
        for successor in self._waiting[:1]:
            successor.leads = True
            successor.moved.set()
