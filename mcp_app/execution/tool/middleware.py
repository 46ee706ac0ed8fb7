"""The middleware and the transactions around a tool's function, as a site has them around its
views.

For the runner all of this is the tool's body. It is armed, watched and stopped as a whole.
"""

from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from functools import lru_cache
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured, MiddlewareNotUsed
from django.db import connections, transaction
from django.utils.module_loading import import_string

from mcp_app.catalogue.input.asking import InputRequired
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.conf import settings
from mcp_app.execution.tool.context import ToolContext

GetResult: TypeAlias = Callable[[ToolContext], Any]
"""A callable that takes a call's context, and returns or raises what its tool does."""


def middleware() -> GetResult:
    """Return the middleware in `MCP["MIDDLEWARE"]`, the first one outermost, around
    `ToolContext.body`.

    It is built once for each process. Raises what a factory raises.
    """
    return _chain(tuple(settings.MIDDLEWARE))


def atomic_aliases(tool: RegisteredTool) -> tuple[str, ...]:
    """Return the databases with ATOMIC_REQUESTS, except those excluded by `non_atomic_requests`."""
    excepted = getattr(tool.function, "_non_atomic_requests", ())
    return tuple(
        alias for alias in connections if connections.settings[alias]["ATOMIC_REQUESTS"] and alias not in excepted
    )


def atomically(body: Callable[[], Any], aliases: Iterable[str]) -> Any:
    """Call `body` in a transaction on each database."""
    with ExitStack() as stack:
        _enter(stack, aliases)
        try:
            return body()
        except InputRequired as error:
            # Commit: the next run does not repeat the steps that were done `once`.
            question = error
    raise question


@asynccontextmanager
async def atomically_async(aliases: Iterable[str]) -> AsyncIterator[None]:
    """Open a transaction on each database around a coroutine.

    It is for code that runs in the one thread that `sync_to_async` and the ORM use. If the
    coroutine is closed from outside, its connections are closed, which rolls back.
    """
    stack = ExitStack()
    await sync_to_async(_enter)(stack, aliases)
    try:
        yield
    except (Exception, CancelledError) as error:
        await sync_to_async(stack.__exit__)(type(error), error, error.__traceback__)
        raise
    except InputRequired:
        await sync_to_async(stack.close)()
        raise
    await sync_to_async(stack.close)()


def _enter(stack: ExitStack, aliases: Iterable[str]) -> None:
    for alias in aliases:
        stack.enter_context(transaction.atomic(using=alias))


def _call_body(context: ToolContext) -> Any:
    if context.body is None:
        raise RuntimeError("The call has ended, so its result is no longer available.")
    return context.body()


@lru_cache
def _chain(paths: tuple[str, ...]) -> GetResult:
    get_result: GetResult = _call_body
    for path in reversed(paths):
        try:
            middleware = import_string(path)(get_result)
        except MiddlewareNotUsed:
            continue
        if middleware is None:
            raise ImproperlyConfigured(f"The factory {path} of MCP['MIDDLEWARE'] returned no middleware.")
        get_result = middleware
    return get_result
