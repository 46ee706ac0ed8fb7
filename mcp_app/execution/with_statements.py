"""Where an exception from outside would leave taken for good what a `with` statement took.

From Python 3.14 on it calls `__enter__` as anything is called, and CPython may raise right after that: the block has
not begun, so that nobody calls `__exit__`. Before, an instruction of its own ended within the block, and nothing is
found here.
"""

import dis
from enum import Flag
from functools import lru_cache
from types import CodeType, FrameType


class Ahead(Flag):
    """What comes before CPython next looks whether something is to be raised."""

    NOTHING = 0
    ENTERING = 1
    THE_END = 2


def _call_of_enter() -> bytes | None:
    for instruction in dis.get_instructions(compile("with a: pass", "", "exec")):
        if instruction.opname == "LOAD_SPECIAL" and instruction.argrepr == "__enter__":
            return bytes((instruction.opcode, instruction.arg or 0))
    return None


_CALL_OF_ENTER = _call_of_enter()
"""What stands before that call in the code."""
_WITH_TARGET = frozenset((*dis.hasjrel, *dis.hasjabs))
_LOOKS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD"})
_LEAVES = frozenset({"RAISE_VARARGS", "RERAISE", "YIELD_VALUE"})
_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})


def is_entering(frame: FrameType | None) -> bool:
    """Whether the frame calls an `__enter__`, or has just called it: the two look alike."""
    if frame is None or _CALL_OF_ENTER is None:
        return False
    return frame.f_code.co_code.endswith(_CALL_OF_ENTER, 0, frame.f_lasti)


def enters_next(frame: FrameType | None) -> bool:
    """Whether what another thread leaves for `frame` may be seen right after an `__enter__`.

    A thread that gives way when CPython looks sees it only when CPython looks for the next time.
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
    """For each instruction what may come after it; what comes to nothing is left out."""
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
    """Where the instruction goes on. Not to a handler: what is raised there is no longer the first."""
    instruction = instructions[position]
    targets = []
    if instruction.opcode in _WITH_TARGET:
        target = instruction.argval
        while target not in index:  # an argument's extension
            target += 2
        targets.append(index[target])
    if instruction.opname not in _JUMPS | _LEAVES | {"RETURN_VALUE"} and position + 1 < len(instructions):
        targets.append(position + 1)
    return targets


def _at(instructions: list[dis.Instruction], position: int, found: list[Ahead]) -> Ahead:
    """What an instruction is for those before it: a place where CPython looks, the frame's end, or a way to others."""
    instruction = instructions[position]
    if instruction.opname == "RETURN_VALUE":
        return Ahead.THE_END
    if instruction.opname not in _LOOKS:
        return found[position]
    before = instructions[position - 1]
    entering = bytes((before.opcode, before.arg or 0)) == _CALL_OF_ENTER
    return Ahead.ENTERING if instruction.opname == "CALL" and entering else Ahead.NOTHING
