"""Who asks for a resource, a prompt or a completion, and for what: `Visit`, found by its annotation.

The light counterpart of a tool's context: there is nothing to cancel, report or store.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser

from mcp_app.auth.principal import Principal

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Visit:
    """One caller asking for one thing. Ask for it with a parameter annotated `Visit`."""

    def __init__(self, principal: Principal, arguments: Mapping[str, Any] = _NOTHING, uri: str | None = None) -> None:
        self.principal = principal
        self.arguments = arguments
        """What was bound: a template's variables, a prompt's arguments; empty while something is listed."""
        self.uri = uri
        """The resource's URI as it was asked for; None for prompts and in lists."""

    @property
    def user(self) -> AbstractBaseUser | None:
        """The Django user who asks, read now; None for an anonymous caller or a user who is gone."""
        return user_of(self.principal.user_id)


def user_of(user_id: str) -> AbstractBaseUser | None:
    """The user that a principal or a request names; None for "" and for one who is gone."""
    if not user_id:
        return None
    return get_user_model()._default_manager.filter(pk=user_id).first()
