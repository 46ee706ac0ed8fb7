"""The protocol revisions: which exist, and which are served.

A client of the modern era states its version in every request, one of the legacy era in a
handshake. Every fact that differs by revision is stated here. Source: 2026-07-28 basic/versioning,
"Backward Compatibility"; the changelog page of each revision.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

MODERN: Final = "2026-07-28"
ASSUMED_LEGACY: Final = "2025-03-26"
"""The revision of a request that names no version (streamable-http, "Protocol Version Header")."""
SUPPORTED_VERSIONS: Final = (MODERN,)
"""The versions in `server/discover` and in `data.supported`. A legacy revision here would invite
modern requests in that revision.
"""


@dataclass(frozen=True)
class Revision:
    """A legacy revision of Streamable HTTP, with the features that other revisions lack."""

    name: str
    batches: bool = False
    """Several messages in one POST."""
    titles: bool = False
    """Titles, structured output, resource links, `_meta` on what is listed, `lastModified`."""
    icons: bool = False
    """Icons, and a description and website of the server."""
    elicitation: bool = False
    """The server can ask the user to fill in a form."""
    modes: bool = False
    """The server can also send the user to a page. Forms have multiple choice and defaults, and a
    message of a sample has several contents.
    """
    primes_streams: bool = False
    """An event stream begins with an empty event that has an id. Older clients fail on empty data.
    """


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
"""The revisions that begin with an `initialize` handshake, oldest first."""
LEGACY_REVISIONS: Final = tuple(LEGACY)
LATEST_LEGACY: Final = LEGACY_REVISIONS[-1]


def negotiate_legacy(requested: str) -> Revision:
    """Return the revision that answers an `initialize`: the requested one, or else the newest."""
    return LEGACY.get(requested, LEGACY[LATEST_LEGACY])
