"""Run one scenario for each of the legacy revisions."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from mcp_app.protocol.revisions import LEGACY_REVISIONS
from tests.support.asgi_client import run


def run_each(scenario: Callable[[str], Coroutine[Any, Any, None]], versions: Iterable[str] = LEGACY_REVISIONS) -> None:
    """Run a scenario in each of these revisions, in one server process.

    A database for each takes longer.
    """

    async def play() -> None:
        for version in versions:
            try:
                await scenario(version)
            except BaseException as error:
                error.add_note(f"in revision {version}")
                raise

    run(play())
