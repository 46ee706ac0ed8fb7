"""JSON values that every database can store."""

import math
import re
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(value: Any) -> Any:
    """Return a JSON-ready value that every database can store.

    NUL and lone surrogates become U+FFFD; NaN and infinities become `None`. Otherwise an error message could keep a row
    from being closed.
    """
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {storable(key): storable(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [storable(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def finite(value: object) -> float | None:
    """Return `value` as a finite float, or `None` if it is NaN, infinite, a boolean or of another type."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value) if abs(value) < 1e300 else math.inf
    return number if math.isfinite(number) else None
