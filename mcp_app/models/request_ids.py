"""Makes request ids that sort by time and cannot be guessed.

Every id is in four indexes. With random ids each call would write to index pages of its own. They
would rarely be in the cache, and each would be written back at a checkpoint. Sessions and tasks
have random ids, because clients see them.
"""

import secrets
import time
from uuid import UUID

_RANDOM_BITS = 74


def new() -> UUID:
    """Return a UUID of version 7: milliseconds, then random bits (RFC 9562, section 5.7)."""
    milliseconds = time.time_ns() // 1_000_000 & (1 << 48) - 1
    random = secrets.randbits(_RANDOM_BITS)
    low = random & (1 << 62) - 1
    return UUID(int=milliseconds << 80 | 0x7 << 76 | random >> 62 << 64 | 0b10 << 62 | low)
