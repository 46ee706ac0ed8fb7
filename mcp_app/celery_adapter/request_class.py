"""Celery's request object for a message of this app, in the worker's main process.

In its event loop, Celery stores there that a task was revoked or lost with its process. If the
database were away at that moment, the worker would end; if it were slow, the worker would stop. So
`ToolRequest` stores nothing; the ladder does.
"""

from collections.abc import Mapping
from typing import Any, Final

from celery.exceptions import InvalidTaskError
from celery.worker.request import Request

from mcp_app.celery_adapter import pools
from mcp_app.celery_adapter.broker import parsed_id
from mcp_app.states import Status

_CANCELLED = repr(Status.CANCELLED.value)


_NO_OPTIONS: Final = {
    "callbacks": None,
    "chain": None,
    "chord": None,
    "errbacks": None,
    "eta": None,
    "expires": None,
    "group": None,
    "group_index": None,
    "periodic_task_name": None,
    "replaced_task_nesting": 0,
    "retries": 0,
    "shadow": None,
    "stamped_headers": None,
    "stamps": None,
    "timelimit": None,
}
"""Options of tasks that a call never has: its times are in its row, and no task follows it."""


class ToolRequest(Request):
    """A request whose result is not stored by the main process.

    A message only names the request to run, so nothing else is read from it. Raises
    `InvalidTaskError` for any other message, which Celery then rejects.
    """

    def __init__(self, message: Any, *, headers: Mapping[str, Any] | None = None, **options: Any) -> None:
        headers = message.headers if headers is None else headers
        try:
            task_id = headers.get("id")
            args, kwargs, embedded = message.payload
            if parsed_id(task_id) is None or list(args) != [task_id] or kwargs != {} or not isinstance(embedded, dict):
                raise ValueError("its only argument must be a request id")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidTaskError(f"{type(error).__name__}: {error}") from error
        own = {"argsrepr": repr((task_id,)), "kwargsrepr": "{}", "ignore_result": True}
        options["headers"] = {**headers, **_NO_OPTIONS, **own}
        options |= {"body": ([task_id], {}, {}), "decoded": True, "utc": True}
        super().__init__(message, **options)

    @property
    def store_errors(self) -> bool:
        return False

    def cancel(self, pool: Any, *args: Any, **options: Any) -> None:
        """Cancel the task when a cold shutdown begins.

        In a pool of threads this would raise an error, and the ladder ends the calls.
        """
        if pools.kind_of(pool) == "prefork":
            super().cancel(pool, *args, **options)

    def send_event(self, kind: str, **fields: Any) -> None:
        """Send an event of Celery's, and a cancelled run as `task-revoked`.

        Celery counts every task that returns as succeeded.
        """
        if kind == "task-succeeded" and fields["result"] == _CANCELLED:
            super().send_event("task-revoked", terminated=False, signum=None, expired=False)
        else:
            super().send_event(kind, **fields)
