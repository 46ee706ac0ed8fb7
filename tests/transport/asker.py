"""Who asks, as the test says: an authenticator, and users and tokens for it."""

from django.contrib.auth.models import Group, Permission, User

from mcp_app.auth.authentication import principal_of
from mcp_app.auth.connection import HTTPConnection
from mcp_app.auth.principal import Principal

_asker: list[Principal | None] = [None]
AUTHENTICATOR = f"{__name__}.authenticator"


def authenticator(connection: HTTPConnection) -> Principal | None:
    return _asker[0]


def asks(principal: Principal | None) -> None:
    _asker[0] = principal


def user(*permissions: str, group: str = "", **fields: object) -> Principal:
    """A new user with these permissions, by codename."""
    made = User.objects.create_user(f"user{User.objects.count()}", **fields)
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    if group:
        made.groups.add(Group.objects.create(name=group))
    return principal_of(made)


def scope_of(*scopes: str) -> Principal:
    """Who shows a token that was given for these."""
    return Principal(issuer="tests", subject="1", client_id="", label="1", scopes=frozenset(scopes))
