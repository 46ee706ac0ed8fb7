"""The protocol revisions: which exist, which are served, and which era a request belongs to.

Every fact that differs by revision is stated here. Source: 2026-07-28 basic/versioning, "Backward
Compatibility".
"""

from enum import Enum
from typing import Final

MODERN: Final = "2026-07-28"
LEGACY_REVISIONS: Final = ("2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of Streamable HTTP that open with an `initialize` handshake; told apart, not served yet."""
ASSUMED_LEGACY: Final = "2025-03-26"
"""What a request without any version speaks (streamable-http, "Protocol Version Header")."""
SUPPORTED_VERSIONS: Final = (MODERN,)
"""The one list in `server/discover` and in `data.supported`. Naming a legacy revision here would invite
modern-shaped requests in it."""


class Era(Enum):
    """How a request conveys its version: in every request (modern), or once in a handshake (legacy)."""

    MODERN = "modern"
    LEGACY = "legacy"


def decide_era(header: str | None, declares_version: bool) -> Era:
    """Return the era of one request.

    `header` is the `MCP-Protocol-Version` field, None when absent; `declares_version` says whether
    `params._meta` holds `io.modelcontextprotocol/protocolVersion`. A version nobody knows is modern, so that
    its refusal names what is served.
    """
    if declares_version:
        return Era.MODERN
    if header is None or header in LEGACY_REVISIONS:
        return Era.LEGACY
    return Era.MODERN
