"""Who may have something: by what the site grants its users, and by what a token was given for.

Refuses to say why not: who lacks a permission or a group is told what is told of what does not exist.
"""

from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import AbstractBaseUser

from mcp_app.auth import scopes
from mcp_app.auth.principal import Principal


@dataclass(frozen=True, slots=True)
class Access:
    """What somebody needs to have it; everybody may where nothing is needed."""

    permissions: tuple[str, ...] = ()
    """Django's, as `app_label.codename`: all of them."""
    groups: tuple[str, ...] = ()
    """Names of Django's groups: one of them."""
    scopes: tuple[str, ...] = ()
    """What a token must have been given for: all of them."""

    @property
    def is_limited(self) -> bool:
        """Whether it takes a user of the site."""
        return bool(self.permissions or self.groups)

    @property
    def audience(self) -> tuple[tuple[str, ...], ...]:
        """The same for what the same callers are shown; a scope hides nothing."""
        return tuple(sorted(self.permissions)), tuple(sorted(self.groups))

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
        groups = getattr(user, "groups", None)
        return not self.groups or (groups is not None and bool(groups.filter(name__in=self.groups).exists()))


EVERYBODY: Final = Access()
