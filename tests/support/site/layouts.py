"""Starts a site in different layouts: on its embedded parts alone, on PostgreSQL and Redis, or as separate processes.

Leaving a layout closes its stack.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.site.programs import STARTING
from tests.support.site.stack import MANAGE, SETTINGS, Server, Stack


@contextmanager
def closing(stack: Stack) -> Iterator[Stack]:
    """Close the stack at the end. After a failure, do not check how its processes end."""
    try:
        yield stack
    except BaseException:
        stack.abandon()
        raise
    stack.close()


@contextmanager
def embedded(data: Path, settings: str = SETTINGS, pool: str = "prefork") -> Iterator[Stack]:
    """A site that is one command, `mcp serve`."""
    with closing(Stack(data, {}, workers=1, settings=settings, pool=pool)) as stack:
        stack.serve_from(stack.start_embedded(*stack.worker_options))
        yield stack


@contextmanager
def narrow(data: Path, **settings: Any) -> Iterator[Stack]:
    """A site that is one `mcp serve` with these settings of `MCP`."""
    environment = {"MCP_TEST_SETTINGS": json.dumps(settings)}
    with closing(Stack(data, environment, workers=1, settings="tests.acceptance.narrow_settings")) as stack:
        stack.serve_from(stack.start_embedded(*stack.worker_options))
        yield stack


@contextmanager
def engines(
    data: Path,
    environment: Mapping[str, str],
    settings: str = SETTINGS,
    pool: str = "prefork",
    *,
    of_workers: Mapping[str, str] | None = None,
) -> Iterator[Stack]:
    """Daphne, uvicorn and two workers on the engines that the environment names.

    `of_workers` is added to the environment of the workers.
    """
    with ExitStack() as exits:
        stack = exits.enter_context(closing(Stack(data, environment, workers=2, settings=settings, pool=pool)))
        migrated = stack.start(*MANAGE, "migrate", "--settings", settings, "--verbosity=0")
        assert migrated.wait(STARTING) == 0, migrated.output()
        stack.of_workers = of_workers or {}
        stack.serve_from(stack.start_embedded("--no-worker"), stack.start_uvicorn())
        for _ in range(stack.expected_workers):
            stack.start_worker()
        stack.restore_workers()
        yield stack


@contextmanager
def apart(
    data: Path, environment: Mapping[str, str], *, servers: int = 1, workers: int = 1, settings: str = SETTINGS
) -> Iterator[Stack]:
    """Servers and workers as separate processes on any engines, for a test to stop and to replace."""
    with closing(Stack(data, environment, workers=workers, settings=settings)) as stack:
        for alias in ("default",) if "MCPSITE_DATABASE" in environment else ("default", "mcp"):
            migrated = stack.start(
                *MANAGE, "migrate", "--settings", settings, "--verbosity=0", "--skip-checks", f"--database={alias}"
            )
            assert migrated.wait(STARTING) == 0, migrated.output()
        stack.serve_from(*(stack.start_embedded("--no-worker") for _ in range(servers)))
        for _ in range(workers):
            stack.start_worker()
        stack.restore_workers()
        yield stack


@contextmanager
def two_servers(stack: Stack) -> Iterator[tuple[Server, Server]]:
    """Yield the stack's first server and another one, which is started if the stack has only one."""
    if len(stack.servers) > 1:
        yield stack.servers[0], stack.servers[1]
        return
    other = stack.start_embedded("--no-worker")
    try:
        yield stack.servers[0], other
    finally:
        other.stop()
