"""`mcp serve`: runs a whole site in one process and a worker.

Everything is checked before anything is started. At the end, the server drains before the worker is stopped. No process
is left behind, however often the command is interrupted.
"""

import asyncio
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.db import connections
from django.http.request import validate_host
from django.urls import NoReverseMatch, reverse
from django.utils.module_loading import import_string

from mcp_app import descriptors
from mcp_app.auth import authentication
from mcp_app.catalogue import tool_rows
from mcp_app.checks.asgi import check_asgi
from mcp_app.conf import settings
from mcp_app.embedded.server import EmbeddedServer
from mcp_app.management.serving import addresses, gc_tuning, preparation, welcome
from mcp_app.management.serving.worker import PREFORK
from mcp_app.management.serving.worker_process import WorkerProcess
from mcp_app.routing import asgi_path
from mcp_app.transport import shutdown

READY_SECONDS = 60.0
"""How long a worker may take to start before a message reports a problem."""
QUIT_STATUS = 130
"""The exit status after a second Ctrl-C."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Say = Callable[[str], None]


class AddressRefusedError(Exception):
    """The server must not listen on this address. The message explains what to do."""


class WorkerFailedError(Exception):
    """The worker could not be started, so the server was stopped."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of `mcp serve`. If `concurrency` is `None`, no worker is started."""

    host: str
    port: int
    concurrency: int | None
    pool: str = PREFORK


def serve(options: ServeOptions, say: Say) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises `AddressRefusedError`, `ListenError` or `NotPreparedError` before anything is started. Raises
    `WorkerFailedError` if the worker cannot be started, after the server has stopped.
    """
    check_host(options.host)
    require_endpoints()
    site = _Site(options, say)
    with _on_signals(site.quit):
        site.listen()
        site.prepare()
        site.run()
    say("Stopped.")


def check_host(host: str) -> None:
    """Raise `AddressRefusedError` if other hosts could reach an endpoint that accepts anonymous callers."""
    try:
        local = addresses.is_loopback(host)
    except OSError as error:
        raise AddressRefusedError(f"{host} is not an address: {error.strerror}.") from error
    if not local and any(map(authentication.allows_anonymous, settings.endpoints)):
        raise AddressRefusedError(
            f"Not serving on {host}: anonymous calls are allowed, so everyone who can reach it could call every tool. "
            "Serve on 127.0.0.1, or require authentication: "
            'MCP["AUTHENTICATOR"] = "mcp_app.auth.tokens.bearer", and no MCP["ALLOW_ANONYMOUS"] = True '
            "(the example site: MCPSITE_AUTHENTICATOR=mcp_app.auth.tokens.bearer)."
        )


def require_endpoints() -> None:
    """Raise `NotPreparedError`, with the lines to add, unless the site's ASGI application serves every endpoint.

    For other commands this is only a warning, because a site may be served by another application.
    """
    for message in check_asgi():
        raise preparation.NotPreparedError(f"{message.msg}\n{message.hint}")


class _Site:
    """One run. Its methods are called in their order here."""

    def __init__(self, options: ServeOptions, say: Say) -> None:
        self._say = say
        self._hurried = False
        self._readiness = _Readiness(say, waits_for_worker=options.concurrency is not None)
        self._worker = (
            None
            if options.concurrency is None
            else WorkerProcess(
                options.concurrency, self._readiness.worker_consumes, self._worker_failed, pool=options.pool
            )
        )
        self._worker_has_failed = False
        self._demo_admin: preparation.DemoAdmin | None = None
        self._server = EmbeddedServer(
            _application(),
            options.host,
            options.port,
            max_body_bytes=settings.MAX_BODY_BYTES,
            vanished_after=settings.VANISHED_AFTER,
            max_held_bytes=settings.MAX_HELD_BODY_BYTES,
            max_connections=settings.MAX_CONNECTIONS,
            head_timeout=settings.HEAD_TIMEOUT,
            body_timeout=settings.BODY_TIMEOUT,
            retry_after=max(1, math.ceil(settings.RETRY_AFTER)),
            ready_callable=self._listens,
            drain=self._drain,
            drain_seconds=settings.DRAIN_SECONDS + shutdown.STOPPING_SECONDS + shutdown.CLOSING_SECONDS + 1.0,
        )

    def listen(self) -> None:
        """Bind the port. Connections wait there until `run`. Raises `ListenError`."""
        descriptors.raise_limit(settings.MAX_CONNECTIONS)
        self._server.listen()
        if (shortage := descriptors.shortage(settings.MAX_CONNECTIONS)) is not None:
            self._say(shortage)

    def prepare(self) -> None:
        """Create tables, the tools' rows and a demo administrator. Raises `NotPreparedError`."""
        if applied := preparation.prepare_databases():
            self._say(f"Applied {applied} migrations to the embedded databases.")
        tool_rows.sync()
        self._demo_admin = preparation.create_demo_admin()
        connections.close_all()

    def run(self) -> None:
        """Start the worker, serve until a signal arrives, and stop the worker. Raises `WorkerFailedError`."""
        if self._worker is not None:
            self._worker.start()
        gc_tuning.tune()
        try:
            self._server.run()
        finally:
            self._readiness.forget()
        if self._hurried:
            self.quit()
        if self._worker is not None:
            self._worker.stop()
        if self._worker_has_failed:
            raise WorkerFailedError("The worker could not be started; see above.")

    def quit(self) -> NoReturn:
        """Exit at once and leave no process. May be called from a signal handler."""
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self._worker is not None:
            self._worker.kill()
        with suppress(RuntimeError):  # the signal arrived during a write
            self._say("Stopped at once.")
        os._exit(QUIT_STATUS)  # without waiting for threads, which may hang

    def _listens(self, host: str, port: int) -> None:
        base = addresses.base_url(host, port)
        endpoints = {endpoint: base + settings.at(endpoint).PATH for endpoint in settings.endpoints}
        password, token = (made.password, made.token) if (made := self._demo_admin) else (None, None)
        self._say(welcome.addresses(endpoints, _admin_url(host, port), password))
        if token_lines := welcome.tokens_of(endpoints, token):
            self._say(token_lines)
        for endpoint, url in endpoints.items():
            self._say(welcome.client_configuration(endpoint, url, token))
            self._say(welcome.stdio_configuration(endpoint))
        self._readiness.server_listens()

    def _worker_failed(self, reason: str) -> None:
        self._worker_has_failed = True
        self._say(reason)
        self._server.stop_soon()

    async def _drain(self) -> None:
        self._say("Stopping: running calls have a moment to end. Ctrl-C again to quit at once.")
        try:
            await shutdown.drain()
        except asyncio.CancelledError:  # a second signal
            self._hurried = True
            raise


class _Readiness:
    """Prints READY once, when the server listens and the worker consumes. Thread-safe."""

    def __init__(self, say: Say, *, waits_for_worker: bool) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._missing = {"server", "worker"} if waits_for_worker else {"server"}
        self._waits_for_worker = waits_for_worker
        self._timer = threading.Timer(READY_SECONDS, self._complain)
        self._timer.daemon = True

    def server_listens(self) -> None:
        if self._waits_for_worker:
            self._timer.start()
        else:
            self._say("No worker was started: calls wait until there is one (`manage.py mcp worker`).")
        self._have("server")

    def worker_consumes(self) -> None:
        self._have("worker")

    def forget(self) -> None:
        self._timer.cancel()

    def _have(self, part: str) -> None:
        with self._lock:
            if not self._missing:
                return
            self._missing.discard(part)
            if self._missing:
                return
        self._timer.cancel()
        self._say("READY. Ctrl-C stops everything.")

    def _complain(self) -> None:
        self._say(
            f"The worker was not ready within {READY_SECONDS:g} s: calls wait until it is. "
            "Its messages are above; `manage.py mcp worker` shows only those."
        )


def _application() -> Any:
    """Return the site's ASGI application. Under `DEBUG` it also serves static files, as `runserver` does."""
    application = import_string(asgi_path())
    if django_settings.DEBUG and apps.is_installed("django.contrib.staticfiles"):
        return ASGIStaticFilesHandler(application)
    return application


def _admin_url(host: str, port: int) -> str | None:
    """Return the address of the admin, with a host that Django's `ALLOWED_HOSTS` accepts if there is one."""
    allowed = django_settings.ALLOWED_HOSTS or ["127.0.0.1", "[::1]", ".localhost"]
    written = f"[{host}]" if ":" in host else host
    base = addresses.base_url(host if validate_host(written, allowed) else "localhost", port)
    try:
        return base + reverse("admin:index")
    except NoReverseMatch:
        return None


@contextmanager
def _on_signals(quit_at_once: Callable[[], NoReturn]) -> Iterator[None]:
    """Quit on SIGINT and SIGTERM while the server's event loop, which handles them itself, does not run.

    No exception is used for this, because Python ignores an exception that is raised in a finalizer.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        quit_at_once()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
