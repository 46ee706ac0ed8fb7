"""Who asks for a resource, a prompt or a completion, and for what: `Visit`, found by its annotation.

The light counterpart of a tool's context: there is nothing to cancel, report or store. What it asks of its client is
replayed from what the client brings back.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, Final, NoReturn

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.db import connections

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.asking import Asking, Known
from mcp_app.protocol.revisions import MODERN

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_NOBODY: Final = Known(MODERN, {})


class Visit(Asking):
    """One caller asking for one thing. Ask for it with a parameter annotated `Visit`.

    The function of a prompt or a resource may ask its user, and does then run again with each answer; what it has done
    `once` goes through the client meanwhile, signed and not hidden. Who lists, completes or decides may not ask.
    """

    def __init__(
        self,
        principal: Principal,
        arguments: Mapping[str, Any] = _NOTHING,
        uri: str | None = None,
        known: Known | None = None,
    ) -> None:
        super().__init__(known or _NOBODY)
        self.principal = principal
        self.arguments = arguments
        """What was bound: a template's variables, a prompt's arguments; empty while something is listed."""
        self.uri = uri
        """The resource's URI as it was asked for; None for prompts and in lists."""
        self._may_ask = known is not None

    @property
    def user(self) -> AbstractBaseUser | None:
        """The Django user who asks, read now; None for an anonymous caller or a user who is gone."""
        return user_of(self.principal.user_id)

    def to_run(self, known: Known) -> "Visit":
        """The same for the function of the prompt or resource, which may ask."""
        return Visit(self.principal, self.arguments, self.uri, known)

    def elicit_page(self, *_: Any, **__: Any) -> NoReturn:
        """Only tools can: what is done on a page of the site is kept with a call, and there is none."""
        raise RuntimeError("Only a tool can wait for a page of this site to be completed; here, use elicit_url.")

    def _check_goes_on(self) -> None:
        if not self._may_ask:
            raise RuntimeError("Only the function of a prompt or a resource may ask, or do something once.")

    def _check_may_end(self) -> None:
        """It always may: there is nothing that it would leave undone."""

    def _keep(self, key: str, value: Any) -> None:
        """The client carries it to the runs that follow: see `asked`."""

    async def _akeep(self, key: str, value: Any) -> None:
        """As `_keep`."""


def user_of(user_id: str) -> AbstractBaseUser | None:
    """The user that a principal or a request names; None for "" and for one who is gone. For `async` code, too."""
    if not user_id:
        return None
    if not _in_event_loop():
        return _read(user_id)
    # The ORM refuses an event loop's thread. This loop is the author's own: nobody else waits for it.
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(_read_and_leave, user_id).result()


def _read(user_id: str) -> AbstractBaseUser | None:
    return get_user_model()._default_manager.filter(pk=user_id).first()


def _read_and_leave(user_id: str) -> AbstractBaseUser | None:
    try:
        return _read(user_id)
    finally:
        connections.close_all()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
