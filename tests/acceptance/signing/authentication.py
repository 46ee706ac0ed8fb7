"""Who asks: whoever the header names."""

from django.contrib.auth.models import User

from mcp_app.auth.authentication import HTTPConnection


def named_user(connection: HTTPConnection) -> User | None:
    name = connection.headers.get("Authorization", "").removeprefix("Bearer ")
    return User.objects.filter(username=name).first()
