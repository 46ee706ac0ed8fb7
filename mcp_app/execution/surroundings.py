"""What stands around a tool's body, as around a view of the site: its middleware, and inside that its transactions.

All of it is the body to the runner: armed, watched, stopped with it. Refuses to know what the tool does.
"""

from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured, MiddlewareNotUsed
from django.db import connections, transaction
from django.utils.module_loading import import_string

from mcp_app.catalogue.asking import InputRequired
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.conf import settings
from mcp_app.execution.context import ToolContext

Body: TypeAlias = Callable[[], Any]
GetResult: TypeAlias = Callable[[ToolContext], Any]
"""From a call to what its tool returned; what it raised is raised."""

_body: ContextVar[Body] = ContextVar("mcp_app_body")


def in_middleware(body: Body, context: ToolContext) -> Body:
    """`body` inside the middleware that `MCP["MIDDLEWARE"]` names, the first outermost.

    Made here, once in a process: raises whatever a factory raises.
    """
    return partial(_call, _chain(tuple(settings.MIDDLEWARE)), context, body)


def atomic_aliases(tool: RegisteredTool) -> tuple[str, ...]:
    """The databases that have ATOMIC_REQUESTS set, unless Django's `non_atomic_requests` excepts the tool."""
    excepted = getattr(tool.function, "_non_atomic_requests", ())
    return tuple(
        alias for alias in connections if connections.settings[alias]["ATOMIC_REQUESTS"] and alias not in excepted
    )


def atomically(body: Body, aliases: Iterable[str]) -> Any:
    """Call `body` in a transaction on each database."""
    with ExitStack() as stack:
        _enter(stack, aliases)
        try:
            return body()
        except InputRequired as error:
            # Committed: what was done `once` is not done again by the run that follows.
            question = error
    raise question


@asynccontextmanager
async def atomically_async(aliases: Iterable[str]) -> AsyncIterator[None]:
    """The same around a coroutine: for what it does in the one thread in which `sync_to_async` and the ORM run.

    What ends in no other way than this ends with its connections, which undoes it.
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


def _call(get_result: GetResult, context: ToolContext, body: Body) -> Any:
    token = _body.set(body)
    try:
        return get_result(context)
    finally:
        _body.reset(token)


def _call_body(context: ToolContext) -> Any:
    return _body.get()()


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
