"""Keys of users, each for one tenant: `ada@acme` is the key of Ada at the tenant acme."""

from typing import Any

from django.contrib.auth import get_user_model


def user_of_key(key: str | None, schema: str | None) -> Any:
    name, _, tenant = (key or "").partition("@")
    return get_user_model().objects.filter(username=name).first() if tenant == schema else None
