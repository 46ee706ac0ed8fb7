"""The caller of a test: an authenticator, and users and tokens for it."""

from django.contrib.auth.models import Group, Permission, User

from mcp_app.auth.authentication import HTTPConnection, principal_of
from mcp_app.auth.principal import Principal

_asker: list[Principal | None] = [None]
AUTHENTICATOR = f"{__name__}.authenticator"


def authenticator(connection: HTTPConnection) -> Principal | None:
    return _asker[0]


def set_caller(principal: Principal | None) -> None:
    _asker[0] = principal


def user(*permissions: str, group: str = "", **fields: object) -> Principal:
    """Return a new user with these permissions, by codename."""
    made = User.objects.create_user(f"user{User.objects.count()}", **fields)
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    if group:
        made.groups.add(Group.objects.create(name=group))
    return principal_of(made)


def caller_with_scopes(*scopes: str) -> Principal:
    """Return a caller whose token has these scopes."""
    return Principal(issuer="tests", subject="1", client_id="", label="1", scopes=frozenset(scopes))
