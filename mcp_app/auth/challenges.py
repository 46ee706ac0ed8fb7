"""Refusals that tell a client how to be let in: 400, 401 and 403 with `WWW-Authenticate`.

Refuses to repeat anything that a client sent. Source: 2026-07-28 basic/authorization "Error Handling", RFC 6750 §3,
RFC 9728 §5.1.
"""

from collections.abc import Sequence

from mcp_app.auth.oauth.resource import ProtectedResource, protected_resource
from mcp_app.auth.principal import Principal
from mcp_app.protocol.errors import FORBIDDEN, INVALID_REQUEST, UNAUTHORIZED, HTTPFields, Rejection, RequestId, refuse


def unauthorized(message: str, endpoint: str, *, error: str | None = None) -> Rejection:
    """401, with what a token for the endpoint takes. `error`: RFC 6750's code, where a token was shown."""
    return refuse(UNAUTHORIZED, message, headers=_challenge(protected_resource(endpoint), error))


def malformed(message: str, endpoint: str) -> Rejection:
    """400: what is shown cannot be read as a credential, so that nothing is said of one."""
    challenge = _challenge(protected_resource(endpoint), "invalid_request")
    return refuse(INVALID_REQUEST, message, headers=challenge)


def insufficient_scope(
    missing: Sequence[str], needed: Sequence[str], endpoint: str, request_id: RequestId | None = None
) -> Rejection:
    """The caller's token was not given for this: 403, with a challenge that names all the scopes it takes, those of
    the endpoint among them ("Runtime Insufficient Scope Errors")."""
    message = f"Your token was not given for this; ask for one with the scope {' '.join(missing)}."
    challenge = _challenge(protected_resource(endpoint), "insufficient_scope", needed)
    return refuse(FORBIDDEN, message, request_id, headers=challenge)


def lacks_scope(
    missing: Sequence[str], needed: Sequence[str], principal: Principal, request_id: RequestId | None = None
) -> Rejection:
    """What is told of a use that takes scopes: who has shown no token is to show one (401), without a word of error."""
    if principal.shows_nothing:
        message = f"This takes a token with the scope {' '.join(needed)}; the call has none."
        headers = _challenge(protected_resource(principal.endpoint), None, needed)
        return refuse(UNAUTHORIZED, message, request_id, headers=headers)
    return insufficient_scope(missing, needed, principal.endpoint, request_id)


def _challenge(resource: ProtectedResource | None, error: str | None, needed: Sequence[str] = ()) -> HTTPFields:
    required = resource.required_scopes if resource else ()
    parameters = {
        "error": error,
        "scope": " ".join(dict.fromkeys([*required, *needed])),
        "resource_metadata": resource.metadata_url if resource else None,
    }
    said = ", ".join(f'{name}="{value}"' for name, value in parameters.items() if value)
    return ((b"www-authenticate", f"Bearer {said}".rstrip().encode()),)
