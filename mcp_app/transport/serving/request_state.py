"""Seals and verifies `requestState`, which a client returns with its answers.

The state is bound to the request that it answered: principal, method, name and arguments. It is
signed with the site's `SECRET_KEY` or one of its fallbacks, so that every server process can verify
it, and it expires by the database's clock. It is not encrypted, because the client may know its
content.
Source: 2026-07-28 basic/patterns/mrtr, "Server Requirements".
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core import signing

from mcp_app.auth.principal import Principal, principal_key
from mcp_app.conf import settings
from mcp_app.lifecycle.database import clock

_SALT = "mcp_app.request_state"


@dataclass(frozen=True, slots=True)
class Origin:
    """The request that a state belongs to."""

    principal: Principal
    method: str
    name: str
    """The name of the tool or prompt, or the URI of the resource."""
    arguments: Mapping[str, Any]

    @property
    def digest(self) -> str:
        what = json.dumps([*principal_key(self.principal), self.method, self.name, self.arguments], sort_keys=True)
        return hashlib.sha256(what.encode()).hexdigest()


def seal(state: Any, origin: Origin) -> str:
    """Return a sealed `state`, which must be JSON-ready."""
    return signing.dumps([state, origin.digest, clock.now().timestamp()], salt=_SALT)


def unseal(sealed: str, origin: Origin) -> Any:
    """Return the state, or `None` if it has expired or was not sealed for this origin."""
    try:
        state, digest, sealed_at = signing.loads(sealed, salt=_SALT)
    except (signing.BadSignature, ValueError):
        return None
    is_fresh = clock.now().timestamp() - sealed_at <= settings.MAX_INPUT_SECONDS
    return state if digest == origin.digest and is_fresh else None
