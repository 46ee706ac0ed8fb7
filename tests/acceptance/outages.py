"""A site on engines of its own, for tests that stop, kill or freeze them: PostgreSQL, a broker, a channel layer.

Refuses to leave an engine away: after each test all serve again, and the site's processes are those it began with.
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
"""Seconds for a refusal on a machine that has other work; what is owed, 2 s, is measured."""
PATIENT: Final = 400.0
"""Seconds for a test that starts the site as well, on a machine that has other work."""
BACK_IN: Final = 40.0
"""Seconds for workers to find a broker that is back: they look after 2 s, 4 s, 6 s and so on."""


@dataclass(frozen=True, slots=True)
class Site:
    """A running site and what it stands on. RabbitMQ's has no channel layer, Redis's has a Redis of its own for it."""

    stack: Stack
    kind: str
    database: Engine
    broker: Engine
    layer: Engine | None
    measured: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds that things took: bounds that are too tight to be asserted on a machine that has other work."""

    def measure(self, what: str, seconds: float) -> None:
        self.measured[f"{self.kind}: {what}"].append(seconds)

    @property
    def processes(self) -> set[int]:
        """The main processes of its servers and workers that run."""
        programs = [server.program for server in self.stack.servers] + self.stack.worker_programs
        return {program.pid for program in programs if not program.ended}

    def restore(self) -> None:
        """Have every engine serve again."""
        for engine in (self.database, self.broker, self.layer):
            if engine is not None and engine.ended:
                engine.start()
            elif engine is not None:
                engine.thaw()

    def await_workers(self) -> None:
        """Until all workers run, and each hears from the broker again."""
        self.stack.restore_workers()
        count = self.stack.expected_workers
        eventually(
            lambda: self.stack.ask("listening workers", expected=count) == count,
            "all workers listen to the broker",
            BACK_IN,
        )

    def log(self) -> str:
        """What all its programs have said, from their beginning."""
        return "".join(log.read_text(errors="replace") for log in sorted(self.stack.data.glob("*.log")))

    def ask(self, method: str, server: Server) -> Connection:
        return self.stack.post(message(method), accept=JSON, server=server)

    def echo(self, server: Server) -> Connection:
        return self.stack.call("echo", accept=JSON, server=server, text="here")


@contextmanager
def site(data: Path, kind: str, pool: str = "prefork") -> Iterator[Site]:
    """Two servers and two workers on PostgreSQL and that broker. Raises ServicesMissingError.

    Where there is a channel layer, the workers are as on another host: it alone wakes the servers.
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
    """When a site has been stopped its own queues are empty, and those of its processes are gone."""
    left = own_engines.queues(broker)
    assert set(left.values()) <= {0}, left
    assert not [name for name in left if "pidbox" in name or "reply" in name or "celeryev" in name], left
