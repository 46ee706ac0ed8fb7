"""`ReadContext`: the caller and the arguments of a resource, a prompt or a completion.

It is the counterpart of a tool's context, without cancellation, progress or storage. The answers to
its questions come from the client with each run.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn

from django.contrib.auth.models import AbstractBaseUser

from mcp_app.auth.principal import Principal, user_of
from mcp_app.catalogue.input.asking import Asking, Known
from mcp_app.protocol.revisions import MODERN

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_NOBODY: Final = Known(MODERN, {})


class _ReadRun:
    """The run of a prompt or a resource. A question may end it at any time."""

    def __init__(self, *, may_ask: bool) -> None:
        self._may_ask = may_ask

    def check_goes_on(self) -> None:
        if not self._may_ask:
            raise RuntimeError("Only the function of a prompt or a resource may ask the user or use once().")

    def check_may_end(self) -> None: ...

    def check_has_client(self) -> None: ...

    def keep(self, key: str, value: Any) -> None:
        """Store nothing: the client carries the value to the next runs (`Asking.ended_by`)."""

    async def akeep(self, key: str, value: Any) -> None:
        """Do the same as `keep`."""


class ReadContext(Asking):
    """The context of one read. A parameter annotated `ReadContext` receives it.

    Example::

        @resource("notes://today")
        def today(context: ReadContext):
            return Note.objects.get(owner=context.user, day=date.today()).text

    The function of a prompt or a resource may ask its user, and then runs again with each answer.
    The results of `once` pass through the client meanwhile, signed but readable. Functions that
    list, complete or decide about availability may not ask.
    """

    def __init__(
        self,
        principal: Principal,
        arguments: Mapping[str, Any] = _NOTHING,
        uri: str | None = None,
        known: Known | None = None,
    ) -> None:
        super().__init__(known or _NOBODY, _ReadRun(may_ask=known is not None))
        self.principal = principal
        """The caller: `label` for display, `scopes`, `endpoint` and its identity."""
        self.arguments = arguments
        """A template's variables or a prompt's arguments, converted. Empty for lists."""
        self.uri = uri
        """The resource's URI as it was requested; `None` for prompts and in lists."""

    @property
    def user(self) -> AbstractBaseUser | None:
        """The Django user who calls, read now; `None` for an anonymous caller or a deleted user."""
        return user_of(self.principal.user_id)

    def to_run(self, known: Known) -> "ReadContext":
        """Return the context for the function itself, which may ask."""
        return ReadContext(self.principal, self.arguments, self.uri, known)

    def elicit_page(self, *_: Any, **__: Any) -> NoReturn:
        """Raise RuntimeError, because the result of a page is stored with a tool's call."""
        raise RuntimeError("Only a tool can wait for a page of this site to be completed; here, use elicit_url.")
