"""`mcp stdio` as a real process: only messages on standard output, a worker of its own, and no process left."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.situations import LONG, STEP
from tests.everything.noise import NOISE
from tests.support.site import wire
from tests.support.site.inspector import Row
from tests.support.site.layouts import closing
from tests.support.site.line_process import LineProcess
from tests.support.site.stack import CONCURRENCY, MANAGE, Stack
from tests.support.site.stdio import ERAS, PATIENCE, StdioClient
from tests.support.waiting import eventually

of_both_eras = pytest.mark.parametrize("client", ERAS, indirect=True)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Stack]:
    """A site with new data and no process. A test fails if it leaves a process running."""
    with closing(Stack(tmp_path, {}, workers=0)) as stack:
        yield stack


def noisily(site: Stack) -> dict[str, str]:
    """Return the environment of a server whose site prints when it is loaded."""
    return {**site.environment, "MCP_TEST_NOISE": "1"}


@pytest.fixture
def client(site: Stack, request: pytest.FixtureRequest) -> StdioClient:
    """A client whose server and worker have started and have answered a call. Modern unless parametrized."""
    client = ERAS[getattr(request, "param", "modern")](noisily(site), site.data / "stdio.log")
    client.begin_speaking()
    assert words_of(client, "echo", text="begun") == "begun"
    return client


def words_of(client: StdioClient, tool: str, **arguments: object) -> str:
    return wire.text(client.result(client.call(tool, **arguments)))


def begin(site: Stack, client: StdioClient, tool: str = "sleep_sync") -> tuple[str, Path]:
    """Make a call and wait until it takes steps. Return its id, and the file to which it writes."""
    steps = site.data / "steps"
    request_id = client.call(tool, seconds=LONG, path=str(steps), step=STEP)
    eventually(steps.exists, "it takes a step", PATIENCE)
    return request_id, steps


def ended(site: Stack, request_id: str) -> Row:
    def found() -> Row | None:
        row = site.inspector.row(jsonrpc_id=request_id)
        return row if row is not None and row.ended else None

    row = eventually(found, f"{request_id} ends", PATIENCE)
    assert row is not None
    return row


def await_no_process(site: Stack) -> None:
    """Wait until no process is left but the inspector, if it was started."""
    spare = {site.inspector.pid} if site.has_inspector else set()
    site.await_no_process(PATIENCE, spare=frozenset(spare))


def assert_work_stopped(steps: Path) -> None:
    written = steps.read_text()
    time.sleep(4 * STEP)
    assert steps.read_text() == written


def test_discover_needs_neither_tables_nor_a_worker(site: Stack) -> None:
    client = StdioClient(noisily(site), site.data / "stdio.log", "--no-worker")
    assert client.result(client.ask("server/discover"))["supportedVersions"] == [wire.VERSION]
    client.close()
    assert (client.rest(), client.wait()) == ([], 0)


def test_a_server_whose_worker_cannot_be_started_answers_the_call_says_why_and_ends(site: Stack) -> None:
    environment = {**site.environment, "NO_WORKER_WHILE": str(site.data)}
    command = [*MANAGE, "mcp", "stdio", "--settings=tests.management.unstartable_settings", CONCURRENCY]
    process = LineProcess(command, environment, site.data / "stdio.log", PATIENCE)
    process.send(wire.message("tools/call", name="add", arguments={"a": 1, "b": 2}))
    [answer] = process.rest()
    assert "shutting down" in wire.text(answer["result"])
    assert process.wait() == 1
    assert "this worker's package is broken" in process.log.read_text()
    assert "cannot be started" in process.log.read_text()


def test_whatever_prints_the_client_reads_messages_only(site: Stack, client: StdioClient) -> None:
    assert words_of(client, "noisy") == "quiet"
    [content] = client.result(client.ask("resources/read", uri="noise://here"))["contents"]
    assert content["text"] == "read 0 characters"
    client.close()
    assert (client.rest(), client.wait()) == ([], 0)
    # What the server and its imports print goes to standard error. The worker's standard output is discarded.
    assert client.log.read_text().count(NOISE) >= 5


@of_both_eras
def test_two_calls_run_at_once_and_a_cancelled_one_is_stopped_and_silent(site: Stack, client: StdioClient) -> None:
    slow, steps = begin(site, client)
    assert words_of(client, "echo", text="fast") == "fast"
    client.cancel(slow, "enough")
    row = ended(site, slow)
    assert (row.status, row.cancel_cause, row.cancel_reason) == ("cancelled", "client", "enough")
    assert_work_stopped(steps)
    assert words_of(client, "echo", text="next") == "next"
    client.close()
    assert (client.rest(), client.wait()) == ([], 0)


@of_both_eras
def test_the_end_of_input_stops_the_work_and_every_process(site: Stack, client: StdioClient) -> None:
    request_id, steps = begin(site, client, "spawn")
    client.close()
    assert (client.rest(), client.wait()) == ([], 0)
    await_no_process(site)
    row = ended(site, request_id)
    assert (row.status, row.cancel_cause) == ("cancelled", "disconnect")
    assert_work_stopped(steps)


@of_both_eras
def test_sigterm_tells_the_client_how_its_call_ended(site: Stack, client: StdioClient) -> None:
    request_id, steps = begin(site, client)
    client.signal(signal.SIGTERM)
    [answer] = client.rest()
    assert (answer["id"], answer["result"]["isError"]) == (request_id, True)
    assert "shutting down" in wire.text(answer["result"])
    assert client.wait() == 0
    row = ended(site, request_id)
    assert (row.status, row.cancel_cause) == ("cancelled", "shutdown")
    assert_work_stopped(steps)


@of_both_eras
def test_sigkill_leaves_no_process_and_the_next_server_closes_the_call(site: Stack, client: StdioClient) -> None:
    request_id, steps = begin(site, client, "spawn")
    client.signal(signal.SIGKILL)
    assert client.wait() == -signal.SIGKILL
    await_no_process(site)
    assert_work_stopped(steps)
    other = StdioClient(noisily(site), site.data / "other.log")
    assert words_of(other, "echo", text="next") == "next"
    row = ended(site, request_id)
    # The worker may have had the time to stop the call.
    assert (row.status in ("cancelled", "lost"), row.result) == (True, None)
    other.close()
    assert (other.rest(), other.wait()) == ([], 0)


def test_a_living_worker_is_used_and_its_end_made_up_for(site: Stack, client: StdioClient) -> None:
    other = StdioClient(noisily(site), site.data / "other.log")
    assert words_of(other, "echo", text="borrowed") == "borrowed"
    assert len(site.workers()) == 1
    client.close()
    assert client.wait() == 0
    assert words_of(other, "echo", text="own") == "own"
    other.close()
    assert other.wait() == 0
