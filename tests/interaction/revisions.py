"""One scenario for each of the legacy revisions."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from mcp_app.protocol.revisions import LEGACY_REVISIONS
from tests.transport.client import run


def run_each(scenario: Callable[[str], Coroutine[Any, Any, None]], versions: Iterable[str] = LEGACY_REVISIONS) -> None:
    """Play a scenario in each of these revisions, in one server process: a database for each would take longer."""

    async def play() -> None:
        for version in versions:
            try:
                await scenario(version)
            except BaseException as error:
                error.add_note(f"in revision {version}")
                raise

    run(play())
