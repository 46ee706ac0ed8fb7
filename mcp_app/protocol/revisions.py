"""The protocol revisions: which exist, which are served, and which era a request belongs to.

Every fact that differs by revision is stated here. Source: 2026-07-28 basic/versioning, "Backward
Compatibility"; the changelog page of each revision.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

MODERN: Final = "2026-07-28"
ASSUMED_LEGACY: Final = "2025-03-26"
"""What a request without any version speaks (streamable-http, "Protocol Version Header")."""
SUPPORTED_VERSIONS: Final = (MODERN,)
"""The one list in `server/discover` and in `data.supported`. Naming a legacy revision here would invite
modern-shaped requests in it."""


@dataclass(frozen=True)
class Revision:
    """A legacy revision of Streamable HTTP: what it has that others have not."""

    name: str
    batches: bool = False
    """Several messages in one POST."""
    titles: bool = False
    """Titles, structured output, resource links, `_meta` on what is listed, `lastModified`."""
    icons: bool = False
    """Icons, and a server's description and website."""
    elicitation: bool = False
    """A user can be asked to fill in a form."""
    modes: bool = False
    """Or sent to a page; forms have choices of several, and defaults; samples have several contents in a message."""
    primes_streams: bool = False
    """An event stream begins with an empty event that has an id; older clients choke on empty data."""


LEGACY: Final[Mapping[str, Revision]] = MappingProxyType(
    {
        revision.name: revision
        for revision in (
            Revision("2025-03-26", batches=True),
            Revision("2025-06-18", titles=True, elicitation=True),
            Revision("2025-11-25", titles=True, icons=True, elicitation=True, modes=True, primes_streams=True),
        )
    }
)
"""Those that open with an `initialize` handshake, the oldest first."""
LEGACY_REVISIONS: Final = tuple(LEGACY)
LATEST_LEGACY: Final = LEGACY_REVISIONS[-1]


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
    if header is None or header in LEGACY:
        return Era.LEGACY
    return Era.MODERN


def negotiate_legacy(asked: str) -> Revision:
    """The revision that answers an `initialize`: the one asked for, else the newest that has the handshake."""
    return LEGACY.get(asked, LEGACY[LATEST_LEGACY])
