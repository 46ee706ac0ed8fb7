"""The lines of a running tool agree with the tool's own count, wherever it is interrupted."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from tests.everything.steps import Steps

INTERRUPTS = 100
EVERY = 0.001
"""Seconds of processor time, in the kernel's resolution."""


class Interrupt(BaseException):
    """An exception that a stubborn tool swallows."""


def takes_a_step(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not Steps.take.__code__:
        frame = frame.f_back
    return frame is not None


@contextmanager
def interrupted_now_and_then() -> Iterator[None]:
    """Raise `Interrupt` in the running step at regular intervals."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        if takes_a_step(frame):
            raise Interrupt

    former = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


# If the interrupt falls while a file is opened, the file is closed when it is garbage collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_wherever_it_is_interrupted_a_step_is_written_and_counted_or_neither(tmp_path: Path) -> None:
    path, interrupts = tmp_path / "steps", 0
    steps = Steps(str(path), 60, 0.1)
    with interrupted_now_and_then():
        while interrupts < INTERRUPTS:
            try:
                steps.take()
            except Interrupt:
                interrupts += 1
    lines = path.read_text().splitlines()
    assert [int(line.split()[1]) for line in lines] == list(range(steps.taken))
