"""The credential of a request: the token in its `Authorization` field, and nowhere else.

Refuses the query string, which ends in logs and histories, and bodies (OAuth 2.1 §5.1.1).
"""

import re
from typing import Final

from mcp_app.auth.authentication import InvalidCredentialsError, MalformedCredentialsError
from mcp_app.auth.connection import HTTPConnection

_BEARER: Final = re.compile(r"Bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_SCHEME: Final = re.compile(r"Bearer(?: |$)", re.IGNORECASE)


def bearer_token(connection: HTTPConnection) -> str | None:
    """What is shown as `Authorization: Bearer …`; None without that field.

    Raises InvalidCredentialsError where the field holds anything else: MalformedCredentialsError where that is said to
    be a token, and is none, or several.
    """
    credentials = connection.headers.get("authorization")
    if credentials is None:
        return None
    given = _BEARER.fullmatch(credentials)
    if given is None:
        raise MalformedCredentialsError if _SCHEME.match(credentials) else InvalidCredentialsError
    return given[1]
