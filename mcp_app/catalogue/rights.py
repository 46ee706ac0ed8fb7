"""What the site grants a caller of all that is declared, whatever its kind.

Blocks on the database where something takes a permission or a group: for the caller's user, read now, and its rights.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from mcp_app.auth.access import Access
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.errors import InsufficientScope
from mcp_app.catalogue.visit import user_of


class Guarded(Protocol):
    """What is declared with an `Access`."""

    @property
    def access(self) -> Access:
        """What it takes to have it."""


G = TypeVar("G", bound=Guarded)


def is_granted(access: Access, principal: Principal) -> bool:
    """Whether `principal` may have it, now; to others it is as what does not exist."""
    return not access.is_limited or access.admits(user_of(principal.user_id))


def granted(declared: Iterable[G], principal: Principal) -> list[G]:
    """Those of `declared` that `principal` may have, in their order."""
    each = list(declared)
    user = user_of(principal.user_id) if any(one.access.is_limited for one in each) else None
    return [one for one in each if one.access.admits(user)]


def check_scopes(access: Access, principal: Principal) -> None:
    """Raises `InsufficientScope` where the caller's token was not given for it."""
    if missing := access.missing_scopes(principal):
        raise InsufficientScope(missing, access.scopes)
