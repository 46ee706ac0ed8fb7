"""A site on engines of its own, for tests that stop, kill or freeze them: PostgreSQL, a broker, a channel layer.

After each test, the `site` fixture starts the engines again and waits until all workers consume.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.site import layouts, own_engines
from tests.support.site.own_engines import Engine
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import JSON, Connection, message
from tests.support.waiting import eventually

BROKERS: Final = {"redis": own_engines.redis, "rabbitmq": own_engines.rabbitmq}
REPUBLISH_AFTER: Final = 2.0
DATABASE_TIMEOUT: Final = 3.0
ENDING_TIMEOUT: Final = 8.0
REFUSED_IN: Final = 10.0
"""Seconds for an error response on a busy machine. The promised time, 2 s, is only measured."""
PATIENT: Final = 400.0
"""Seconds for a test that may have to start the site, on a busy machine."""
BACK_IN: Final = 40.0
"""Seconds for workers to reconnect to a broker that is back: they retry after 2 s, 4 s, 6 s and so on."""


@dataclass(frozen=True, slots=True)
class Site:
    """A running site and its engines. With Redis as its broker, a second Redis is the channel layer.

    With RabbitMQ there is no channel layer.
    """

    stack: Stack
    kind: str
    database: Engine
    broker: Engine
    layer: Engine | None
    measured: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Durations in seconds, whose bounds are too tight to assert on a busy machine."""

    def measure(self, what: str, seconds: float) -> None:
        self.measured[f"{self.kind}: {what}"].append(seconds)

    @property
    def processes(self) -> set[int]:
        """The main processes of the servers and workers that run."""
        programs = [server.program for server in self.stack.servers] + self.stack.worker_programs
        return {program.pid for program in programs if not program.ended}

    def restore(self) -> None:
        """Start or thaw every engine."""
        for engine in (self.database, self.broker, self.layer):
            if engine is not None and engine.ended:
                engine.start()
            elif engine is not None:
                engine.thaw()

    def await_workers(self) -> None:
        """Wait until all workers run and are connected to the broker."""
        self.stack.restore_workers()
        count = self.stack.expected_workers
        eventually(
            lambda: self.stack.ask("listening workers", expected=count) == count,
            "all workers listen to the broker",
            BACK_IN,
        )

    def log(self) -> str:
        """Return the whole output of all programs of the site."""
        return "".join(log.read_text(errors="replace") for log in sorted(self.stack.data.glob("*.log")))

    def ask(self, method: str, server: Server) -> Connection:
        return self.stack.post(message(method), accept=JSON, server=server)

    def echo(self, server: Server) -> Connection:
        return self.stack.call("echo", accept=JSON, server=server, text="here")


@contextmanager
def site(data: Path, kind: str, pool: str = "prefork") -> Iterator[Site]:
    """Run two servers and two workers on PostgreSQL and that broker. Raises `ServicesMissingError`.

    If there is a channel layer, the workers act as if they ran on another host, so that only the layer can wake the
    servers.
    """
    with ExitStack() as exits:
        database = exits.enter_context(own_engines.postgresql())
        broker = exits.enter_context(BROKERS[kind]())
        layer = exits.enter_context(own_engines.redis()) if kind == "redis" else None
        environment = {
            "MCPSITE_DATABASE": database.url,
            "MCPSITE_BROKER": broker.url,
            "MCP_TEST_REPUBLISH_AFTER": str(REPUBLISH_AFTER),
            "MCP_TEST_DATABASE_TIMEOUT": str(DATABASE_TIMEOUT),
            "MCP_TEST_ENDING_TIMEOUT": str(ENDING_TIMEOUT),
            **({"MCPSITE_CHANNELS": layer.url} if layer else {}),
        }
        elsewhere = {"MCP_TEST_ELSEWHERE": "1"} if layer else {}
        if kind == "rabbitmq":
            exits.callback(assert_nothing_waits, broker)
        stack = exits.enter_context(layouts.engines(data, environment, pool=pool, of_workers=elsewhere))
        yield Site(stack, kind, database, broker, layer)


def assert_nothing_waits(broker: Engine) -> None:
    """Assert that a site that was stopped has left its queues empty, and that its processes' own queues are deleted."""
    left = own_engines.queues(broker)
    assert set(left.values()) <= {0}, left
    assert not [name for name in left if "pidbox" in name or "reply" in name or "celeryev" in name], left
