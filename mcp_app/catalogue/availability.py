"""Per-caller availability of resources and prompts, their completions, and how their functions run.

Authors' functions run in the caller's thread. An async function runs to its end in an event loop of
its own.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from asgiref.sync import async_to_sync

from mcp_app.auth.principal import Access
from mcp_app.catalogue.declaration import UnusableOptionError
from mcp_app.catalogue.input.read_context import ReadContext
from mcp_app.catalogue.schema import text_signature
from mcp_app.conf import settings

T = TypeVar("T")

Available = Callable[[ReadContext], bool | Awaitable[bool]]
"""Decides whether a caller may use a resource or prompt: for lists, reads, subscriptions and
completions."""
Completion = Callable[..., Iterable[str] | Awaitable[Iterable[str]]]
"""Takes `(value, context)` and returns the possible values of an argument, best first. `value` is
what the user has typed, `context` the other arguments so far, by name. A third parameter annotated
`ReadContext` receives the caller."""

NO_COMPLETIONS: Final[Mapping[str, Completion]] = MappingProxyType({})


class Offered(Protocol):
    """A resource or a prompt."""

    @property
    def access(self) -> Access:
        """The rights that the site requires."""

    @property
    def available(self) -> Available | None:
        """The author's own condition."""


def is_offered(offered: Offered, visit: ReadContext) -> bool:
    """Return whether this caller may use the resource or prompt."""
    return offered.access.is_granted_to(visit.principal) and is_available(offered.available, visit)


def is_available(available: Available | None, visit: ReadContext) -> bool:
    return available is None or bool(run(available, visit))


def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a plain or an async function.

    An async function is cancelled after `READ_TIME_LIMIT`, which raises TimeoutError.
    """
    value = function(*args, **kwargs)
    # Calls through `sync_to_async`, the ORM's included, run in this thread with its connections.
    return async_to_sync(_bounded)(value) if inspect.isawaitable(value) else value


def run_for(
    function: Callable[..., Any], visit: ReadContext, visit_parameter: str | None, *args: Any, **kwargs: Any
) -> Any:
    """Call a function, as `run` does, and pass its `ReadContext` if it has a parameter for it."""
    return run(function, *args, **kwargs, **({} if visit_parameter is None else {visit_parameter: visit}))


def complete(completion: Completion, value: str, context: Mapping[str, str], visit: ReadContext) -> Any:
    """Call the completion function of an argument and return its result."""
    return run_for(completion, visit, text_signature.context_parameter(completion, ReadContext), value, context)


def check_completions(completions: Mapping[str, Completion], arguments: Collection[str]) -> None:
    """Check the completions of a declaration.

    Raises `UnusableOptionError` and `UnusableSignatureError`.
    """
    if unknown := sorted(completions.keys() - set(arguments)):
        raise UnusableOptionError(f"completions has {', '.join(unknown)}, which is not an argument")
    for name, completion in completions.items():
        if not inspect.isroutine(completion):
            raise UnusableOptionError(
                f"the completion of {name} must be a function of the typed text and the other arguments"
            )
        text_signature.context_parameter(completion, ReadContext)


async def _bounded(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(settings.READ_TIME_LIMIT):
        return await awaitable
