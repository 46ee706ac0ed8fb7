"""An authenticator that trusts the user name in the `Authorization` header."""

from django.contrib.auth.models import User

from mcp_app.auth.authentication import HTTPConnection


def named_user(connection: HTTPConnection) -> User | None:
    name = connection.headers.get("Authorization", "").removeprefix("Bearer ")
    return User.objects.filter(username=name).first()
