"""The test client: it calls a site's tools in the test's own process, without a server, a broker or a worker.

Every request is read, checked, stored, run and answered by the same code as in production. There is no network:
use `LiveClient` to test one.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser

from mcp_app.auth.authentication import ISSUER
from mcp_app.auth.local import local_principal
from mcp_app.auth.principal import Principal
from mcp_app.celery_adapter import broker
from mcp_app.execution.tool import log_records
from mcp_app.lifecycle.requests.events import Event
from mcp_app.protocol.headers import Headers
from mcp_app.protocol.inbound import classify
from mcp_app.protocol.requests import Route
from mcp_app.states import EventKind
from mcp_app.testing import worker
from mcp_app.testing.caller import CLIENT_NAME, Call, Caller
from mcp_app.testing.connections import BorrowedConnections
from mcp_app.testing.exchange import Collected, InProcessServer, serve
from mcp_app.testing.outcomes import CallResult, Told
from mcp_app.transport.serving.exchange import Exchange


class Client(Caller):
    """A test client, for a `with` block in the test's thread. No event loop may run in that thread.

    Example::

        with Client() as client:
            assert client.call("add", a=1, b=2).text == "3"

    With pytest, the fixture `mcp_client` is such a client. Until `force_login` it acts for the
    local user, as `manage.py mcp stdio` does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.raise_request_exception = True
        """Whether an unexpected exception of a tool is raised in the test. If not, `call` returns
        the `is_error` result that other clients get."""
        self._principal: Principal | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._worker = worker.current()
        self._worker.recorder.lent = BorrowedConnections()
        self._server = InProcessServer()
        self._open.enter_context(broker.replaced_by(self._worker))
        self._open.callback(log_records.install())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def force_login(self, user: AbstractBaseUser, scopes: Iterable[str] | None = None) -> None:
        granted = None if scopes is None else frozenset(scopes)
        name = user.get_username()
        self._principal = Principal(ISSUER, str(user.pk), CLIENT_NAME, label=name, user_id=str(user.pk), scopes=granted)

    def logout(self) -> None:
        self._principal = None

    def cancel(self, reason: str = "") -> None:
        """Cancel the running call, from a function that the tool calls.

        `reason` is stored in the audit. Raises `RuntimeError` if no call is running.
        """
        self._worker.watcher.cancel(reason)

    def _send(self, message: Mapping[str, Any], headers: Mapping[str, str], call: Call) -> Mapping[str, Any]:
        fields = Headers((name.encode(), value.encode()) for name, value in headers.items())
        route = classify(fields, json.dumps(message).encode())
        if not isinstance(route, Route):
            raise TypeError(f"{message['method']} with these params cannot be sent: {route}")
        response = Collected()
        who = replace(self._principal or local_principal(), endpoint=self.endpoint)
        exchange = Exchange(
            server=self._server,
            route=route,
            headers=fields,
            principal=who,
            remote_address="",
            response=response,
            mirrors_params=False,
            makes_tasks=False,  # a call that would become one is waited for
        )
        serve(exchange, partial(self._work, call))
        *told, answered = response.messages
        call.told.add_notifications(told)
        return answered

    def _work(self, call: Call, request_id: UUID) -> None:
        """Run a queued call."""
        call.request_id = request_id
        heard = Told()

        def hear(event: Event) -> None:
            if event.kind == EventKind.PROGRESS:
                heard.add_progress(event.data)
            elif event.kind == EventKind.LOG:
                heard.add_log(event.data)
            if call.should_cancel_now(heard):
                self.cancel()

        with self._worker.listening(request_id, hear, call.cancel_after):
            self._worker.run_queued()

    def _conclude(self, outcome: CallResult) -> CallResult:
        raised = self._worker.raised.pop(outcome.request.pk, None)
        if raised is not None and self.raise_request_exception:
            raise raised
        return replace(outcome, would_be_killed=outcome.request.pk in self._worker.watcher.overdue)
