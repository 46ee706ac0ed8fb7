"""Find the places where an asynchronous exception would leave a context manager entered for good.

From Python 3.14 on, a `with` statement calls `__enter__` by an ordinary call instruction, and
CPython may raise an exception right after it. The block has not begun at that point, so `__exit__`
is not called, and a lock would stay taken. Older versions have an instruction that ends inside the
block; for them this module finds no places.
"""

import dis
from enum import Flag
from functools import lru_cache
from types import CodeType, FrameType


class Ahead(Flag):
    """What an instruction leads to before CPython checks for an exception again."""

    NOTHING = 0
    ENTERING = 1
    THE_END = 2


def _call_of_enter() -> bytes | None:
    for instruction in dis.get_instructions(compile("with a: pass", "", "exec")):
        if instruction.opname == "LOAD_SPECIAL" and instruction.argrepr == "__enter__":
            return bytes((instruction.opcode, instruction.arg or 0))
    return None


_CALL_OF_ENTER = _call_of_enter()
"""The instruction before the call of `__enter__`."""
_WITH_TARGET = frozenset((*dis.hasjrel, *dis.hasjabs))
_LOOKS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD"})
_LEAVES = frozenset({"RAISE_VARARGS", "RERAISE", "YIELD_VALUE"})
_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})


def is_entering(frame: FrameType | None) -> bool:
    """Return whether the frame is in the call of an `__enter__`, or right after it."""
    if frame is None or _CALL_OF_ENTER is None:
        return False
    return frame.f_code.co_code.endswith(_CALL_OF_ENTER, 0, frame.f_lasti)


def enters_next(frame: FrameType | None) -> bool:
    """Return whether an exception that is sent now could be raised right after an `__enter__`.

    A thread that gives up the interpreter at a check sees the exception only at the next check.
    """
    if _CALL_OF_ENTER is None:
        return False
    while frame is not None:
        ahead = _ahead(frame.f_code).get(frame.f_lasti, Ahead.NOTHING)
        if Ahead.ENTERING in ahead:
            return True
        if Ahead.THE_END not in ahead:
            return False
        frame = frame.f_back
    return False


@lru_cache(maxsize=512)
def _ahead(code: CodeType) -> dict[int, Ahead]:
    """Return what each instruction leads to. Instructions that lead to nothing are left out."""
    instructions = list(dis.get_instructions(code))
    index = {instruction.offset: position for position, instruction in enumerate(instructions)}
    found = [Ahead.NOTHING] * len(instructions)
    changed = True
    while changed:
        changed = False
        for position in range(len(instructions) - 1, -1, -1):
            ahead = Ahead.NOTHING
            for target in _successors(instructions, position, index):
                ahead |= _at(instructions, target, found)
            if ahead != found[position]:
                found[position], changed = ahead, True
    return {instruction.offset: ahead for instruction, ahead in zip(instructions, found, strict=True) if ahead}


def _successors(instructions: list[dis.Instruction], position: int, index: dict[int, int]) -> list[int]:
    """Return the positions where execution may continue.

    Exception handlers are left out: there an exception has been raised already.
    """
    instruction = instructions[position]
    targets = []
    if instruction.opcode in _WITH_TARGET:
        target = instruction.argval
        while target not in index:  # skip EXTENDED_ARG
            target += 2
        targets.append(index[target])
    if instruction.opname not in _JUMPS | _LEAVES | {"RETURN_VALUE"} and position + 1 < len(instructions):
        targets.append(position + 1)
    return targets


def _at(instructions: list[dis.Instruction], position: int, found: list[Ahead]) -> Ahead:
    """Return the effect of reaching an instruction: a check, the frame's end, or a successor's."""
    instruction = instructions[position]
    if instruction.opname == "RETURN_VALUE":
        return Ahead.THE_END
    if instruction.opname not in _LOOKS:
        return found[position]
    before = instructions[position - 1]
    entering = bytes((before.opcode, before.arg or 0)) == _CALL_OF_ENTER
    return Ahead.ENTERING if instruction.opname == "CALL" and entering else Ahead.NOTHING
