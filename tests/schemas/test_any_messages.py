"""For any sequence of messages, responses fit their schema and no call stays open.

Responses are checked against the strict schemas that `schemas` makes from the `mcp-types` models.
The models themselves would accept members of other revisions and nulls, and the server is built
with them. With `MCP_SCHEMAS=<folder>`, official schema.json files are used instead. No package
installs them; `.ci/schemas` fetches those that exist.

The examples are the same in every run. `MCP_EXAMPLES=1000 python -m pytest tests/schemas` plays
other and more examples.
"""

import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.models import Request
from mcp_app.states import Cause, Status
from tests.schemas.everything import everything_legacy, everything_modern
from tests.schemas.messages import legacy_steps, modern_steps
from tests.schemas.offered import SAMPLES, offered
from tests.schemas.play import ASKS, Legacy, LegacyLine, Line, Modern, Play
from tests.schemas.steps import Step
from tests.schemas.wires import over_http, over_stdio
from tests.schemas.worker import Playing
from tests.support.asgi_client import run

pytestmark = [pytest.mark.usefixtures("_settings"), pytest.mark.django_db(transaction=True, databases="__all__")]

STEPS = 16
"""Maximum steps of a sequence."""
SHARED = {
    *("tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"),
    *("prompts/list", "prompts/get", "completion/complete"),
}
MODERN_METHODS = SHARED | {"server/discover", "tasks/get", "tasks/update", "tasks/cancel"}
OF_A_SESSION = {"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
LEGACY_METHODS = SHARED | OF_A_SESSION | {"ping"}
Wire = Callable[[Play], Coroutine[Any, Any, None]]
examples = settings(
    max_examples=int(os.environ.get("MCP_EXAMPLES", "2")),
    derandomize="MCP_EXAMPLES" not in os.environ,
    phases=[Phase.generate, *([Phase.shrink] if "MCP_EXAMPLES" in os.environ else [])],
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def _settings(configure) -> None:
    configure(
        ALLOW_ANONYMOUS=True,
        ALLOWED_HOSTS=["testserver"],
        KEEP_ALIVE=10.0,
        SSE_AFTER=10.0,
        DRAIN_SECONDS=0.1,
        PAGE_SIZE=5,
        COMPLETION_BURST=10_000,
    )


@pytest.fixture
def worker() -> Iterator[Playing]:
    with offered(), Playing.at_work() as worker:
        yield worker


def settle(worker: Playing) -> None:
    """Wait until only unanswered questions are open, and cancel their calls."""
    worker.settle()
    for row in Request.objects.filter(status=Status.INPUT_REQUIRED):
        cancellation.cancel(row.pk, cause=Cause.ADMIN, actor=SYSTEM)
    worker.settle()


def play_all(worker: Playing, wire: Wire, client: Modern, steps: list[Step]) -> set[tuple[str, str]]:
    """Play a sequence, and return the results that it received."""
    run(wire(client.play(steps)))
    settle(worker)
    return client.results


def play_any(worker: Playing, wire: Wire, client: Callable[[], Modern], steps: Any) -> None:
    """Play the examples, each with a server process of its own."""

    @examples
    @given(st.lists(steps, min_size=STEPS // 2, max_size=STEPS))
    def play(chosen: list[Step]) -> None:
        play_all(worker, wire, client(), chosen)

    play()


@pytest.mark.parametrize(("wire", "client"), [(over_http, Modern), (over_stdio, Line)])
def test_of_the_modern_revision(worker: Playing, wire: Wire, client: type[Modern]) -> None:
    results = play_all(worker, wire, client(SAMPLES), everything_modern(SAMPLES))
    assert {method for method, _ in results} >= MODERN_METHODS
    assert {kind for _, kind in results} == {"complete", "input_required", "task"}
    play_any(worker, wire, lambda: client(SAMPLES), modern_steps(SAMPLES))


@pytest.mark.parametrize(
    ("wire", "client", "version"),
    [
        *((over_http, Legacy, version) for version in ASKS),
        (over_stdio, LegacyLine, "2025-03-26"),
        (over_stdio, LegacyLine, "2025-11-25"),
    ],
)
def test_of_a_legacy_session(worker: Playing, wire: Wire, client: type[Legacy], version: str) -> None:
    first = client(SAMPLES, version)
    results = play_all(worker, wire, first, everything_legacy(SAMPLES))
    assert {method for method, _ in results} == LEGACY_METHODS
    assert first.asked == ASKS[version]
    play_any(worker, wire, lambda: client(SAMPLES, version), legacy_steps(SAMPLES))


@pytest.mark.parametrize("version", ["", "2025-06-18"])
def test_of_a_legacy_revision_without_a_session(worker: Playing, version: str) -> None:
    results = play_all(worker, over_http, Legacy(SAMPLES, version, in_session=False), everything_legacy(SAMPLES))
    assert {method for method, _ in results} == LEGACY_METHODS - OF_A_SESSION
    play_any(worker, over_http, lambda: Legacy(SAMPLES, version, in_session=False), legacy_steps(SAMPLES))
