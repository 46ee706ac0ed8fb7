"""The contenders: how each is started, and the measures that it supports."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from bench import engines, floor_worker
from bench.peers import environments
from bench.peers.target import Target
from bench.stack import (
    HOST,
    SERVER,
    Choice,
    Stack,
    free_port,
    on_engines,
    own_environment,
    own_folder,
    prepare,
    running,
    stopped,
    uvicorn_options,
)

SERVERS: Final = "bench.peers.servers."
SETTINGS: Final = "bench.peers.site.settings"
CROWD: Final = 512
"""Slots of a worker that runs many calls at once."""
THREADS: Final = 16
"""Slots of a worker that runs tools in threads, as the peers do."""
PROCESSES: Final = ("--workers", "2", "--worker-class", "gthread", "--threads", "32", "--keep-alive", "60")
"""Two processes, and in all a thread for each of the 64 measured connections."""
GUNICORN: Final = (*PROCESSES, "--timeout", "180", "--no-control-socket")
"""The long timeout spares workers that start slowly. Without a control socket, nothing is left in the home folder."""


@dataclass(frozen=True, slots=True)
class Engines:
    """The addresses of the shared engines, and the folder of the peers' environments."""

    redis: str
    postgresql: str
    environments: Path = environments.FOLDER


Start = Callable[[Engines], AbstractContextManager[Target]]
Command = Callable[[int], tuple[str, ...]]
"""A function that returns the arguments for the interpreter, for a port."""


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    group: str
    """One of `GROUPS`."""
    title: str
    measures: tuple[str, ...]
    start: Start = field(repr=False)


def uvicorn(application: str) -> Command:
    return lambda port: ("-m", "uvicorn", f"{SERVERS}{application}", *uvicorn_options(port))


def daphne(application: str) -> Command:
    return lambda port: ("-m", "daphne", "-b", HOST, "-p", str(port), "-v", "0", f"{SERVERS}{application}")


def gunicorn(application: str) -> Command:
    return lambda port: ("-m", "gunicorn", "--bind", f"{HOST}:{port}", *GUNICORN, f"{SERVERS}{application}")


def peer(
    command: Command, environment: str | None, *, servers: int = 1, path: str = "/mcp", redis: bool = False
) -> Start:
    """Return a function that starts a server of `bench.peers.servers`.

    `environment` is the name of its environment, or `None` for the environment of this process.
    """

    @contextmanager
    def start(shared: Engines) -> Iterator[Target]:
        with ExitStack() as borrowed:
            folder = borrowed.enter_context(own_folder())
            own = own_environment(folder)
            if redis:
                own["BENCH_REDIS"] = borrowed.enter_context(engines.redis_database(shared.redis))
            stack = Stack(folder, [free_port() for _ in range(servers)], own)
            if environment is not None:
                stack.python = environments.python(environment, shared.environments)
            # A peer that does not stop in time is killed without an error, because stopping is not measured.
            borrowed.enter_context(stopped(stack, in_time=False))
            for number, port in enumerate(stack.ports):
                stack.start(f"server-{number}", *command(port))
            yield Target.of(stack, path)

    return start


def ours(choice: Choice, *, statements: bool = False) -> Start:
    """Return a function that starts this project's site, with PostgreSQL if the broker is Redis."""

    @contextmanager
    def start(shared: Engines) -> Iterator[Target]:
        with ExitStack() as borrowed:
            postgresql = shared.postgresql if choice.stack == "redis" else None
            chosen = replace(choice, redis=shared.redis, postgresql=postgresql)
            path = ""
            if statements:
                path = str(borrowed.enter_context(own_folder()) / "statements")
                chosen = replace(chosen, environment={"BENCH_STATEMENTS": path})
            yield Target.of(borrowed.enter_context(running(chosen)), statements=path)

    return start


@contextmanager
def on_celery(shared: Engines, stack: str) -> Iterator[Target]:
    """Start `bench.peers.servers.on_celery` and a worker, on the engines of this project's site."""
    postgresql = shared.postgresql if stack == "redis" else None
    choice = Choice(stack, "uvicorn", shared.redis, postgresql, floor_worker.SETTINGS)
    with on_engines(choice) as site, stopped(site, in_time=False):
        prepare(site, choice)
        site.environment = {**site.environment, floor_worker.INBOX: str(site.folder / "inbox")}
        site.start("worker", *floor_worker.command())
        site.start(SERVER, "-m", "uvicorn", f"{SERVERS}on_celery:app", *uvicorn_options(site.port))
        yield Target.of(site)


def _site(stack: str, server: str, *, servers: int = 1, worker_options: tuple[str, ...] = ()) -> Choice:
    return Choice(stack, server, "", None, SETTINGS, servers, worker_options)


def _roster() -> Iterator[Contender]:
    calls, lists = ("echo",), ("list", "discover")
    alone = (*calls, *lists, "celery", "progress", "abandoned", "listen", "listen-many")
    crowd = ("--pool", "async", "--concurrency", str(CROWD))
    for stack, engine in (("embedded", "SQLite, folder broker"), ("redis", "PostgreSQL, Redis")):
        for server in ("daphne", "uvicorn"):
            title = f"this project, {engine}, {server}"
            yield Contender(f"{stack}-{server}", "ours", title, alone, ours(_site(stack, server)))
        site = _site(stack, "uvicorn", worker_options=crowd)
        title = f"this project, {engine}, uvicorn, a worker of {CROWD} coroutines"
        yield Contender(f"{stack}-crowd", "ours", title, ("reports", "waiting"), ours(site))
        site = _site(stack, "uvicorn", worker_options=("--pool", "threads", "--concurrency", str(THREADS)))
        title = f"this project, {engine}, uvicorn, a worker of {THREADS} threads"
        yield Contender(f"{stack}-threads", "ours", title, calls, ours(site))
        title = f"this project, {engine}, uvicorn, nobody calls"
        yield Contender(f"{stack}-idle", "ours", title, ("idle",), ours(_site(stack, "uvicorn"), statements=True))
    title = "this project, PostgreSQL, Redis, two uvicorn processes"
    two = _site("redis", "uvicorn", servers=2)
    yield Contender("redis-two", "ours", title, ("listen", "listen-many"), ours(two))

    every = (*calls, *lists, "progress", "reports", "waiting", "abandoned")
    on_mcp = uvicorn("on_mcp:app")
    yield Contender("mcp", "peers", "mcp, uvicorn", (*every, "listen"), peer(on_mcp, "mcp"))
    yield Contender("mcp-two", "peers", "mcp, two uvicorn processes", ("listen",), peer(on_mcp, "mcp", servers=2))
    yield Contender("fastmcp", "peers", "FastMCP, uvicorn", every, peer(uvicorn("on_fastmcp:app"), "fastmcp"))
    tasks = peer(uvicorn("on_fastmcp_tasks:app"), "fastmcp-tasks", redis=True)
    yield Contender("fastmcp-tasks", "peers", "FastMCP tasks, Redis, uvicorn", ("tasks",), tasks)
    mcpz = peer(gunicorn("on_django_mcpz:application"), "django-mcpz")
    yield Contender("django-mcpz", "peers", "django-mcpz, gunicorn", (*calls, *lists, "abandoned"), mcpz)
    drf = peer(gunicorn("on_drf_mcp_server:application"), "drf-mcp-server", path="/mcp/")
    yield Contender(
        "drf-mcp-server", "peers", "djangorestframework-mcp-server, gunicorn", (*calls, *lists, "abandoned"), drf
    )

    for application, what in (("bare", "bare ASGI"), ("consumer", "Channels' stock consumer")):
        for run in (daphne, uvicorn):
            name, title = f"{application}-{run.__name__}", f"{what}, {run.__name__}"
            yield Contender(name, "floors", title, calls, peer(run(f"floors:{application}"), None))
    for stack, engine in (("embedded", "SQLite, folder broker"), ("redis", "PostgreSQL, Redis")):
        title = f"bare ASGI and an empty Celery task, {engine}, uvicorn"
        yield Contender(f"celery-{stack}", "floors", title, calls, partial(on_celery, stack=stack))


CONTENDERS: Final[Mapping[str, Contender]] = {contender.name: contender for contender in _roster()}
GROUPS: Final = ("ours", "peers", "floors")


def chosen(names: Iterable[str], measures: Iterable[str]) -> list[Contender]:
    """Return the contenders with these names or groups that support any of the measures, limited to these measures.

    Without names, returns all of them. Raises `ValueError` if a name is unknown.
    """
    names, measures = set(names), set(measures)
    if unknown := names - CONTENDERS.keys() - set(GROUPS):
        raise ValueError(
            f"Nobody is called {', '.join(sorted(unknown))}; there are {', '.join((*GROUPS, *CONTENDERS))}."
        )
    wanted = (each for each in CONTENDERS.values() if not names or names & {each.name, each.group})
    limited = (replace(each, measures=tuple(name for name in each.measures if name in measures)) for each in wanted)
    return [each for each in limited if each.measures]
