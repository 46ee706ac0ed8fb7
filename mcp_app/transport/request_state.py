"""`requestState`: what a client brings back with its answers, sealed so that it proves where it came from.

It is bound to who asked what: principal, method, name, arguments. Signed with the site's SECRET_KEY, so every server
process reads it, and its fallbacks; it expires, by the database's clock. Not encrypted: what it holds, its client may
know. Refuses everything else without saying why. Source: 2026-07-28 basic/patterns/mrtr "Server Requirements".
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core import signing

from mcp_app.auth.principal import Principal, key_of
from mcp_app.conf import settings
from mcp_app.lifecycle import clock

_SALT = "mcp_app.request_state"


@dataclass(frozen=True, slots=True)
class Origin:
    """What a state is bound to: the request that it was the response to, and whose that was."""

    principal: Principal
    method: str
    name: str
    """Of the tool or the prompt; the resource's URI."""
    arguments: Mapping[str, Any]

    @property
    def digest(self) -> str:
        what = json.dumps([*key_of(self.principal), self.method, self.name, self.arguments], sort_keys=True)
        return hashlib.sha256(what.encode()).hexdigest()


def seal(state: Any, origin: Origin) -> str:
    """`state`: JSON values, in the form of the origin's method."""
    return signing.dumps([state, origin.digest, clock.now().timestamp()], salt=_SALT)


def unseal(sealed: str, origin: Origin) -> Any:
    """The state, if it was sealed here for this origin and has not expired; None for anything else."""
    try:
        state, digest, sealed_at = signing.loads(sealed, salt=_SALT)
    except (signing.BadSignature, ValueError):
        return None
    is_fresh = clock.now().timestamp() - sealed_at <= settings.MAX_INPUT_SECONDS
    return state if digest == origin.digest and is_fresh else None
