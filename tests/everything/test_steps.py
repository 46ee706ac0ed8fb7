"""The lines that show a tool running: wherever an interrupt falls, they say what the tool counts."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.everything.steps import Steps


class Interrupt(BaseException):
    """What a tool that goes on swallows."""


def interrupting(code: object, instruction: int) -> Callable[..., Any]:
    """A trace that raises before so manieth an instruction of `code`."""
    passed = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal passed
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            passed += 1
            if passed == instruction:
                raise Interrupt
        return trace

    return trace


def is_interrupted(steps: Steps, instruction: int) -> bool:
    former = sys.gettrace()
    sys.settrace(interrupting(Steps.take.__code__, instruction))
    try:
        steps.take()
    except Interrupt:
        return True
    finally:
        sys.settrace(former)
    return False


# A file that was opened as the interrupt fell is closed when it is let go.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_wherever_it_is_interrupted_a_step_is_written_and_counted_or_neither(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    steps = Steps(str(path), 60, 0.1)
    steps.take()
    instruction = 1
    while is_interrupted(steps, instruction):
        lines = path.read_text().splitlines()
        assert [int(line.split()[1]) for line in lines] == list(range(steps.taken))
        instruction += 1
    assert instruction > 10
    assert len(path.read_text().splitlines()) == steps.taken
