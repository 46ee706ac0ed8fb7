"""The responses to any sequence of messages conform to the revision's JSON Schema: `tests.schemas` on running sites.

Here every tool runs in a worker, also tools that ask, report progress, fail or become tasks. `MCP_EXAMPLES` is the
number of sequences.
"""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.schemas.everything import everything_legacy, everything_modern
from tests.schemas.judge import Received, Sent
from tests.schemas.messages import legacy_steps, modern_steps
from tests.schemas.offered import FIXTURE_SITE
from tests.schemas.play import ASKS, Legacy, Modern
from tests.schemas.steps import Step
from tests.support.site.stack import Stack
from tests.support.site.wire import Connection

pytestmark = pytest.mark.usefixtures("_given_up")


STEPS = 12
"""The most steps in a sequence."""
examples = settings(
    max_examples=int(os.environ.get("MCP_EXAMPLES", "6")),
    derandomize="MCP_EXAMPLES" not in os.environ,
    phases=[Phase.generate],
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def _given_up(stack: Stack) -> Iterator[None]:
    """After the test, cancel requests that wait for an answer. All others must end by themselves."""
    yield
    for asking in stack.ask("open requests"):
        _, status, request_id = asking.split()
        if status == "input_required":
            stack.ask("cancel", request_id=request_id, reason="the test has ended")


def play(stack: Stack, client: Modern, steps: list[Step]) -> set[tuple[str, str]]:
    """Play a sequence, sending its messages to the servers in turn. Return the results that were received."""
    playing = client.play(steps)
    sent: Sent | None = next(playing, None)
    while sent is not None:
        received = exchange(stack, sent)
        try:
            sent = playing.send(received)
        except StopIteration:
            sent = None
    return client.results


def exchange(stack: Stack, sent: Sent) -> Received:
    connection = stack.connect()
    try:
        connection.send(sent.body, sent.headers, sent.http_method)
        if sent.reads == 0 and sent.http_method == "POST":
            return Received(complete=False)
        return receive(stack, connection, sent)
    finally:
        connection.close()


def receive(stack: Stack, connection: Connection, sent: Sent) -> Received:
    """Read the response. Requests of the server in its stream are answered, at the server whose turn it is."""
    headers = {name.lower(): value for name, value in connection.response.headers.items()}
    received = Received(connection.response.status, headers)
    received.is_stream = connection.is_stream
    if not received.is_stream:
        body = connection.response.read()
        found = json.loads(body) if body else []
        received.messages = found if isinstance(found, list) else [found]
        return received
    frames = connection.messages()
    while sent.reads is None or len(received.messages) < sent.reads:
        if (message := next(frames, None)) is None:
            return received
        received.messages.append(message)
        if sent.reply is not None and {"method", "id"} <= message.keys():
            assert {exchange(stack, reply).status for reply in sent.reply(message)} == {202}
    received.complete = False
    return received


def test_one_of_everything_of_the_modern_revision(stack: Stack) -> None:
    results = play(stack, Modern(FIXTURE_SITE), everything_modern(FIXTURE_SITE))
    assert {kind for _, kind in results} == {"complete", "input_required", "task"}


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_one_of_everything_of_a_legacy_revision(stack: Stack, version: str) -> None:
    client = Legacy(FIXTURE_SITE, version)
    play(stack, client, everything_legacy(FIXTURE_SITE))
    assert client.asked == ASKS[version]


@pytest.mark.fault("F2")
@pytest.mark.parametrize(
    ("steps", "client"),
    [
        (modern_steps, Modern),
        *(
            (legacy_steps, lambda offer, version=version: Legacy(offer, version))
            for version in ("2025-03-26", "2025-11-25")
        ),
        (legacy_steps, lambda offer: Legacy(offer, "", in_session=False)),
    ],
    ids=["modern", "2025-03-26", "2025-11-25", "without a session"],
)
def test_any_messages(stack: Stack, steps: Callable[..., Any], client: Callable[..., Modern]) -> None:
    @examples
    @given(st.lists(steps(FIXTURE_SITE), min_size=STEPS // 2, max_size=STEPS))
    def play_one(chosen: list[Step]) -> None:
        play(stack, client(FIXTURE_SITE), chosen)

    play_one()
