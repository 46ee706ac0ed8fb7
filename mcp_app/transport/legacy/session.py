"""What methods ask of a legacy client's session, wherever it is kept: in rows, or with its connection.

Refuses to know where that is. Source: 2025-11-25 basic/lifecycle, server/utilities/logging, server/resources
"Subscriptions".
"""

from typing import Protocol


class LegacySession(Protocol):
    """One client's session, from its `initialize` on."""

    async def set_log_level(self, level: str) -> None:
        """Steer the calls that follow, and the heartbeat."""

    async def subscribe(self, uri: str) -> bool:
        """Have changes of what is read at `uri` told from now on; False when too many are."""

    async def unsubscribe(self, uri: str) -> None:
        """Have them told no more; nothing where they were not."""
