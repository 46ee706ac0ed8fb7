"""Values of the protocol held against their types, whatever their size: a type notes each misfit in them, at 450 bytes.

Refuses to look into what holds more than any honest value of its kind does.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)

MAX_VALUES: Final = 10_000
"""In all that is held against one type."""


def holds_more_than(value: Any, most: int) -> bool:
    """Whether a JSON value holds more values than that, itself included."""
    pending, found = [value], 0
    while pending:
        node = pending.pop()
        members = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
        found += len(members)
        if found >= most:
            return True
        pending.extend(members)
    return False


def parse(model: type[M], value: Any, *, strict: bool | None = None) -> M | None:
    """The value as this type has it; None for what is none."""
    if holds_more_than(value, MAX_VALUES):
        return None
    try:
        return model.model_validate(value, strict=strict, by_name=False)
    except ValidationError:
        return None
