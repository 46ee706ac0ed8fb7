"""Who calls: the user of a token, or of the admin's session cookie."""

from django.contrib.auth.models import AbstractBaseUser

from mcp_app.auth import logins, tokens
from mcp_app.auth.authentication import HTTPConnection
from mcp_app.auth.principal import Principal


def caller(connection: HTTPConnection) -> Principal | AbstractBaseUser | None:
    return tokens.bearer(connection) or logins.cookie(connection)
