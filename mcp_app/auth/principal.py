"""The principal: who calls, as (issuer, subject, client), and at which endpoint.

Rows are looked up by their principal, so a caller never finds rows of another caller or of another
endpoint. `Access` describes what a caller needs for an endpoint, a tool, a resource or a prompt.
"""

import asyncio
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.db import connections

from mcp_app.conf import DEFAULT_ENDPOINT, settings

COLUMNS: Final = ("issuer", "subject", "client_id", "endpoint")
"""The columns of a row that identify its principal."""
principal_key: Final = attrgetter(*COLUMNS)
"""Return the values of `COLUMNS` of a principal, or of a row that belongs to one."""
_GROUPS: Final = "_mcp_app_groups"


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. `label` is for display. `user_id` is the Django user's key as text, or empty."""

    issuer: str
    subject: str
    client_id: str
    label: str
    user_id: str = ""
    scopes: frozenset[str] | None = field(default=None, compare=False)
    """The scopes of its token, or `None` if no token limits the caller."""
    endpoint: str = DEFAULT_ENDPOINT
    """The name of the endpoint. It overrides the value that an authenticator sets."""
    network: str = field(default="", compare=False)
    """The network by which an anonymous caller is counted in the limits; empty for other callers.
    """

    @classmethod
    def of(cls, request: Any) -> "Principal":
        """Return the principal of a stored request."""
        scopes = None if request.scopes is None else frozenset(request.scopes)
        return cls(
            request.issuer,
            request.subject,
            request.client_id,
            request.principal_label,
            request.user_id,
            scopes,
            request.endpoint,
            request.network,
        )

    @property
    def is_anonymous(self) -> bool:
        """Whether the caller has no credential."""
        return not (self.issuer or self.subject or self.client_id)

    def owns(self, row: Any) -> bool:
        """Return whether `row` (an object with `COLUMNS`) belongs to this principal."""
        return principal_key(row) == principal_key(self)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of this principal's rows, for finding or creating a row."""
        return {**self.identity, "endpoint": self.endpoint}

    @property
    def identity(self) -> dict[str, str]:
        """The columns that identify the caller, without the endpoint."""
        return {"issuer": self.issuer, "subject": self.subject, "client_id": self.client_id}


ANONYMOUS = Principal(issuer="", subject="", client_id="", label="anonymous", scopes=frozenset())


def is_anonymous(owner: Any) -> bool:
    """Return whether a principal, or a row that belongs to one, has no credential."""
    return not (owner.issuer or owner.subject or owner.client_id)


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller needs. By default everyone has access."""

    permissions: tuple[str, ...] = ()
    """Django permissions as `app_label.codename`. All of them are needed."""
    groups: tuple[str, ...] = ()
    """Names of Django groups. One of them is needed."""
    scopes: tuple[str, ...] = ()
    """Scopes of the caller's token. All of them are needed."""
    endpoints: tuple[str, ...] = (DEFAULT_ENDPOINT,)
    """Names of the endpoints that offer it. It does not exist at others."""

    @property
    def is_limited(self) -> bool:
        """Whether access needs a user of the site."""
        return bool(self.permissions or self.groups)

    @property
    def depends_on_caller(self) -> bool:
        """Whether some callers of its endpoints have no access."""
        return bool(self.permissions or self.groups or self.scopes)

    @property
    def audience(self) -> tuple[tuple[str, ...], ...]:
        """A key that is equal for two objects if the same callers see them. Scopes hide nothing."""
        return tuple(tuple(sorted(names)) for names in (self.permissions, self.groups, self.endpoints))

    def admits(self, user: AbstractBaseUser | None) -> bool:
        """Return whether the site grants access to this user.

        A superuser has every permission and belongs to every group.
        """
        if not self.is_limited:
            return True
        if user is None or not user.is_active:
            return False
        if getattr(user, "is_superuser", False):
            return True
        return self._has_permissions(user) and self._has_group(user)

    def is_granted_to(self, principal: Principal) -> bool:
        """Return whether `principal` has access now, at its endpoint. Reads the user if necessary.

        Callers without access must not learn that the object exists.
        """
        if principal.endpoint not in self.endpoints:
            return False
        return not self.is_limited or self.admits(user_of(principal.user_id))

    def missing_scopes(self, principal: Principal) -> list[str]:
        """Return the needed scopes that the principal's token lacks."""
        return missing_scopes(self.scopes, principal.scopes)

    def _has_permissions(self, user: AbstractBaseUser) -> bool:
        has_perms = getattr(user, "has_perms", None)
        return not self.permissions or (has_perms is not None and bool(has_perms(self.permissions)))

    def _has_group(self, user: AbstractBaseUser) -> bool:
        return not self.groups or not _group_names(user).isdisjoint(self.groups)


EVERYBODY: Final = Access()


def user_of(user_id: str) -> AbstractBaseUser | None:
    """Return the user with this id; `None` for "" or a deleted user. Works in `async` code, too."""
    if not user_id:
        return None
    if not _is_in_event_loop():
        return _read_user(user_id)
    # The ORM refuses the thread of an event loop. The loop is the author's own, so it may block.
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(_read_user_and_leave, user_id).result()


def _read_user(user_id: str) -> AbstractBaseUser | None:
    return get_user_model()._default_manager.filter(pk=user_id).first()


def _read_user_and_leave(user_id: str) -> AbstractBaseUser | None:
    try:
        return _read_user(user_id)
    finally:
        connections.close_all()


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _group_names(user: AbstractBaseUser) -> frozenset[str]:
    """Return the names of the user's groups.

    They are read once for each user object, as Django's backends do with permissions, because a
    list checks many objects.
    """
    names: frozenset[str] | None = user.__dict__.get(_GROUPS)
    if names is None:
        groups = getattr(user, "groups", None)
        names = frozenset[str]() if groups is None else frozenset(groups.values_list("name", flat=True))
        user.__dict__[_GROUPS] = names
    return names


def missing_scopes(needed: Collection[str], given: frozenset[str] | None) -> list[str]:
    """Return the scopes of `needed` that `given` neither contains nor implies.

    `given` is `None` if no token limits the caller, who then lacks none. Source: 2026-07-28
    basic/authorization "Step-Up Authorization Flow".
    """
    if given is None or not needed:
        return []
    held_scopes = with_implied_scopes(given)
    return [scope for scope in needed if scope not in held_scopes]


def with_implied_scopes(given: Iterable[str]) -> frozenset[str]:
    """Return the given scopes and all narrower scopes that they imply."""
    held_scopes: set[str] = set()
    pending = list(given)
    while pending:
        scope = pending.pop()
        if scope not in held_scopes:
            held_scopes.add(scope)
            pending.extend(settings.IMPLIED_SCOPES.get(scope, ()))
    return frozenset(held_scopes)
