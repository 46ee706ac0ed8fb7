"""Who may have something: by what the site grants its users, and by what a token was given for.

Refuses to say why not: who lacks a permission or a group is told what is told of what does not exist.
"""

from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import AbstractBaseUser

from mcp_app.auth import scopes
from mcp_app.auth.principal import Principal
from mcp_app.conf import DEFAULT_ENDPOINT

_GROUPS: Final = "_mcp_app_groups"


@dataclass(frozen=True, slots=True)
class Access:
    """What somebody needs to have it; everybody may where nothing is needed."""

    permissions: tuple[str, ...] = ()
    """Django's, as `app_label.codename`: all of them."""
    groups: tuple[str, ...] = ()
    """Names of Django's groups: one of them."""
    scopes: tuple[str, ...] = ()
    """What a token must have been given for: all of them."""
    endpoints: tuple[str, ...] = (DEFAULT_ENDPOINT,)
    """Where it is offered, by name; at others it does not exist."""

    @property
    def is_limited(self) -> bool:
        """Whether it takes a user of the site."""
        return bool(self.permissions or self.groups)

    @property
    def depends_on_caller(self) -> bool:
        """Whether not everybody at its endpoints may have it."""
        return bool(self.permissions or self.groups or self.scopes)

    @property
    def audience(self) -> tuple[tuple[str, ...], ...]:
        """The same for what the same callers are shown; a scope hides nothing."""
        return tuple(tuple(sorted(names)) for names in (self.permissions, self.groups, self.endpoints))

    def admits(self, user: AbstractBaseUser | None) -> bool:
        """Whether the site grants it to this user. A superuser has every permission, and is of every group."""
        if not self.is_limited:
            return True
        if user is None or not user.is_active:
            return False
        if getattr(user, "is_superuser", False):
            return True
        return self._has_permissions(user) and self._is_of_a_group(user)

    def missing_scopes(self, principal: Principal) -> list[str]:
        """What its token was not given for; nothing of one whom no token limits."""
        return scopes.missing(self.scopes, principal.scopes)

    def _has_permissions(self, user: AbstractBaseUser) -> bool:
        has_perms = getattr(user, "has_perms", None)
        return not self.permissions or (has_perms is not None and bool(has_perms(self.permissions)))

    def _is_of_a_group(self, user: AbstractBaseUser) -> bool:
        return not self.groups or not _groups_of(user).isdisjoint(self.groups)


def _groups_of(user: AbstractBaseUser) -> frozenset[str]:
    """Read once for each object of a user, as Django's backends keep its permissions there: a list asks for many."""
    kept: frozenset[str] | None = user.__dict__.get(_GROUPS)
    if kept is None:
        groups = getattr(user, "groups", None)
        kept = frozenset[str]() if groups is None else frozenset(groups.values_list("name", flat=True))
        user.__dict__[_GROUPS] = kept
    return kept


EVERYBODY: Final = Access()
