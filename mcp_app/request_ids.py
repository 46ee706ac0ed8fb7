"""Request ids: in the order in which requests are made, and not to be guessed.

Each is in four indexes. Random ones would have each call write to pages of its own, anywhere in them, which no cache
has and every checkpoint writes back. Refuses to name what a client holds: sessions and tasks have random ids.
"""

import secrets
import time
from uuid import UUID

_RANDOM_BITS = 74


def new() -> UUID:
    """A UUID of version 7: milliseconds, then random bits (RFC 9562, section 5.7)."""
    milliseconds = time.time_ns() // 1_000_000 & (1 << 48) - 1
    random = secrets.randbits(_RANDOM_BITS)
    low = random & (1 << 62) - 1
    return UUID(int=milliseconds << 80 | 0x7 << 76 | random >> 62 << 64 | 0b10 << 62 | low)
