"""What resources and prompts share beyond their declaration: who may have them, completions, and how they are run.

Authors' functions run in the caller's thread, async ones to their end in a loop of their own.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from asgiref.sync import async_to_sync

from mcp_app.auth.access import Access
from mcp_app.catalogue import rights, text_signature
from mcp_app.catalogue.declaration import UnusableOptionError
from mcp_app.catalogue.visit import Visit
from mcp_app.conf import settings

T = TypeVar("T")

Available = Callable[[Visit], bool | Awaitable[bool]]
"""Whether this caller may have it: asked for lists, reads, subscriptions and completions alike."""
Completion = Callable[..., Iterable[str] | Awaitable[Iterable[str]]]
"""`(value, context)` → the values that an argument may have, best first. `value` is what was typed, `context` the other
arguments so far, by name; a third parameter annotated `Visit` is given who asks."""

NO_COMPLETIONS: Final[Mapping[str, Completion]] = MappingProxyType({})


class Offered(Protocol):
    """A resource or a prompt."""

    @property
    def access(self) -> Access:
        """What the site says of who may have it."""

    @property
    def available(self) -> Available | None:
        """What its author says of that."""


def is_offered(offered: Offered, visit: Visit) -> bool:
    """Whether this caller may have it."""
    return rights.is_granted(offered.access, visit.principal) and is_available(offered.available, visit)


def is_available(available: Available | None, visit: Visit) -> bool:
    return available is None or bool(run(available, visit))


def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a plain or an async function. An async one is cancelled at READ_TIME_LIMIT: TimeoutError."""
    value = function(*args, **kwargs)
    # What it hands to `sync_to_async`, the ORM among it, comes back to this thread and its database connections.
    return async_to_sync(_bounded)(value) if inspect.isawaitable(value) else value


def run_for(function: Callable[..., Any], visit: Visit, visit_parameter: str | None, *args: Any, **kwargs: Any) -> Any:
    """As `run`, for a function that may have asked for its `Visit`."""
    return run(function, *args, **kwargs, **({} if visit_parameter is None else {visit_parameter: visit}))


def complete(completion: Completion, value: str, context: Mapping[str, str], visit: Visit) -> Any:
    """What the function of an argument's completions returned."""
    return run_for(completion, visit, text_signature.context_parameter(completion, Visit), value, context)


def check_completions(completions: Mapping[str, Completion], arguments: Collection[str]) -> None:
    """Raises `UnusableOptionError`, and `UnusableSignatureError`."""
    if unknown := sorted(completions.keys() - set(arguments)):
        raise UnusableOptionError(f"completions name {', '.join(unknown)}, which is no argument")
    for name, completion in completions.items():
        if not inspect.isroutine(completion):
            raise UnusableOptionError(
                f"the completion of {name} is a function of what was typed and the other arguments"
            )
        text_signature.context_parameter(completion, Visit)


async def _bounded(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(settings.READ_TIME_LIMIT):
        return await awaitable
