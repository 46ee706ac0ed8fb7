"""Authenticates the caller by a token or by the admin's session cookie."""

from django.contrib.auth.models import AbstractBaseUser

from mcp_app.auth import logins, tokens
from mcp_app.auth.authentication import HTTPConnection
from mcp_app.auth.principal import Principal


def caller(connection: HTTPConnection) -> Principal | AbstractBaseUser | None:
    return tokens.bearer(connection) or logins.cookie(connection)
