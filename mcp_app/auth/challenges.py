"""Responses with instructions for getting access: 400, 401 and 403 with `WWW-Authenticate`.

They repeat nothing that a client sent. Source: 2026-07-28 basic/authorization "Error Handling", RFC
6750 §3, RFC 9728 §5.1.
"""

from collections.abc import Sequence

from mcp_app.auth.oauth.resource import ProtectedResource, protected_resource
from mcp_app.auth.principal import Principal
from mcp_app.protocol.errors import FORBIDDEN, INVALID_REQUEST, UNAUTHORIZED, HTTPFields, Rejection, RequestId, refuse


def unauthorized(message: str, endpoint: str, *, error: str | None = None) -> Rejection:
    """Return a 401 with the requirements for a token.

    `error` is the code of RFC 6750 if the request had a token.
    """
    return refuse(UNAUTHORIZED, message, headers=_challenge(protected_resource(endpoint), error))


def malformed(message: str, endpoint: str) -> Rejection:
    """Return a 400: the Authorization field cannot be read."""
    challenge = _challenge(protected_resource(endpoint), "invalid_request")
    return refuse(INVALID_REQUEST, message, headers=challenge)


def insufficient_scope(
    missing: Sequence[str], needed: Sequence[str], endpoint: str, request_id: RequestId | None = None
) -> Rejection:
    """Return a 403: the caller's token lacks scopes.

    The challenge names all scopes that are needed, including those of the endpoint ("Runtime
    Insufficient Scope Errors").
    """
    message = f"Your token lacks a scope that this needs; request a token that also has the scope {' '.join(missing)}."
    challenge = _challenge(protected_resource(endpoint), "insufficient_scope", needed)
    return refuse(FORBIDDEN, message, request_id, headers=challenge)


def scopes_required(
    missing: Sequence[str], needed: Sequence[str], principal: Principal, request_id: RequestId | None = None
) -> Rejection:
    """Return the response to a use that needs more scopes.

    An anonymous caller gets a 401 that asks for a token. It has no error code, because no token was
    wrong.
    """
    if principal.is_anonymous:
        message = f"This needs a token with the scope {' '.join(needed)}; the call was sent without a token."
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
    challenge = ", ".join(f'{name}="{value}"' for name, value in parameters.items() if value)
    return ((b"www-authenticate", f"Bearer {challenge}".rstrip().encode()),)
