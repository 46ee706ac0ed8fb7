"""`mcp serve`: a whole site in one process and its worker, from checks to the last process gone.

Owns the order: nothing is started before everything that can be refused has been; the server drains before the worker
is stopped. Refuses to leave a process behind, however often it is told to stop.
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

from channels.routing import get_default_application
from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.db import connections
from django.urls import NoReverseMatch, reverse

from mcp_app.auth import anonymous
from mcp_app.catalogue import rows
from mcp_app.conf import settings
from mcp_app.embedded.server import EmbeddedServer
from mcp_app.management import addresses, preparation, welcome
from mcp_app.management.worker import PREFORK
from mcp_app.management.worker_process import WorkerProcess
from mcp_app.transport import draining, shutdown

READY_SECONDS = 60.0
"""How long a worker may take to begin before people are told that something is wrong."""
QUIT_STATUS = 130
"""The exit status of a server that was not given the time to end: the usual one after Ctrl-C."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Say = Callable[[str], None]


class AddressRefusedError(Exception):
    """The server may not listen there; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `mcp serve` was asked for. `concurrency` None: no worker of its own."""

    host: str
    port: int
    concurrency: int | None
    pool: str = PREFORK


def serve(options: Options, say: Say) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises AddressRefusedError, ListenError or NotPreparedError, with nothing started.
    """
    check_host(options.host)
    site = _Site(options, say)
    with _on_signals(site.quit):
        site.listen()
        site.prepare()
        site.run()
    say("Stopped.")


def check_host(host: str) -> None:
    """Raise AddressRefusedError for a host beyond this machine where anybody may call without saying who they are."""
    try:
        local = addresses.is_loopback(host)
    except OSError as error:
        raise AddressRefusedError(f"{host} is no address: {error.strerror}.") from error
    if not local and any(map(anonymous.is_allowed, settings.endpoints)):
        raise AddressRefusedError(
            f"Not serving on {host}: anonymous calls are allowed, so anybody who reaches it could call every tool. "
            "Serve on 127.0.0.1, or have callers say who they are: "
            'MCP["AUTHENTICATOR"] = "mcp_app.auth.tokens.bearer", and no MCP["ALLOW_ANONYMOUS"] = True '
            "(the example site: MCPSITE_AUTHENTICATOR=mcp_app.auth.tokens.bearer)."
        )


class _Site:
    """The parts of one run, in the order of its methods."""

    def __init__(self, options: Options, say: Say) -> None:
        self._say = say
        self._hurried = False
        self._readiness = _Readiness(say, waits_for_worker=options.concurrency is not None)
        self._worker = (
            None
            if options.concurrency is None
            else WorkerProcess(options.concurrency, on_ready=self._readiness.worker_consumes, pool=options.pool)
        )
        self._password: str | None = None
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
            drain_seconds=settings.DRAIN_SECONDS + draining.STOPPING_SECONDS + draining.CLOSING_SECONDS + 1.0,
        )

    def listen(self) -> None:
        """Take the port; requests wait in it until `run`. Raises ListenError."""
        self._server.listen()

    def prepare(self) -> None:
        """Tables, the tools' rows, a demo administrator. Raises NotPreparedError."""
        if applied := preparation.prepare_databases():
            self._say(f"Applied {applied} migrations to the embedded databases.")
        rows.sync()
        self._password = preparation.create_demo_admin()
        connections.close_all()

    def run(self) -> None:
        """Start the worker, serve until told to stop, stop the worker."""
        if self._worker is not None:
            self._worker.start()
        try:
            self._server.run()
        finally:
            self._readiness.forget()
        if self._hurried:
            self.quit()
        if self._worker is not None:
            self._worker.stop()

    def quit(self) -> NoReturn:
        """Leave at once, and leave no process; from a signal handler, too."""
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self._worker is not None:
            self._worker.kill()
        with suppress(RuntimeError):  # the signal came while something was being written
            self._say("Stopped at once.")
        os._exit(QUIT_STATUS)  # not waiting for threads, which may be what hangs

    def _listens(self, host: str, port: int) -> None:
        base = addresses.base_url(host, port)
        endpoints = {endpoint: base + settings.at(endpoint).PATH for endpoint in settings.endpoints}
        self._say(welcome.addresses(endpoints, _admin_url(base), self._password))
        for endpoint, url in endpoints.items():
            self._say(welcome.client_configuration(endpoint, url))
            self._say(welcome.stdio_configuration(endpoint))
        self._readiness.server_listens()

    async def _drain(self) -> None:
        self._say("Stopping: running calls have a moment to end. Ctrl-C again to quit at once.")
        try:
            await shutdown.drain()
        except asyncio.CancelledError:  # a second signal
            self._hurried = True
            raise


class _Readiness:
    """Says READY once: when the server listens and the worker consumes. Called from several threads."""

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
            f"The worker has not begun within {READY_SECONDS:g} s: calls wait until it does. "
            "Its own messages are above; `manage.py mcp worker` shows them alone."
        )


def _application() -> Any:
    """The site's ASGI application; under DEBUG with the apps' static files, as `runserver` serves them."""
    application = get_default_application()
    if django_settings.DEBUG and apps.is_installed("django.contrib.staticfiles"):
        return ASGIStaticFilesHandler(application)
    return application


def _admin_url(base: str) -> str | None:
    try:
        return base + reverse("admin:index")
    except NoReverseMatch:
        return None


@contextmanager
def _on_signals(quit_at_once: Callable[[], NoReturn]) -> Iterator[None]:
    """Quit on SIGINT and SIGTERM, outside the server's own event loop, which handles them itself.

    Not by an exception: Python swallows one that happens to be raised in a finalizer.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        quit_at_once()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
