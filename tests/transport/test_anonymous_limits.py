"""Anonymous callers are limited per network and in total, so that one of them cannot use up everything."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.lifecycle import children
from mcp_app.lifecycle.children import TooManyChildrenError
from mcp_app.lifecycle.input import input_rounds, read_questions
from mcp_app.lifecycle.input.read_questions import TooManyQuestionsError
from mcp_app.lifecycle.limits import capacity
from mcp_app.models import Request, Session
from mcp_app.resources import resource
from mcp_app.states import Status, TaskMode
from mcp_app.tools import tool
from mcp_app.transport.server import current
from tests.interaction.tasks import DECLARES_TASKS
from tests.support import rows
from tests.support.asgi_client import PATIENCE, Connection, call, message, post
from tests.support.legacy_asgi_client import Client, request
from tests.support.worker import Worker, eventually, in_thread
from tests.transport.test_load import answered, refused

pytestmark = pytest.mark.usefixtures("_limited", "_task")


GREEDY, MODEST, THIRD, FOURTH = "192.0.2.1", "2001:db8:0:1::1", "192.0.2.3", "192.0.2.4"
NEIGHBOUR = "2001:db8:0:1::2"
"""An address in the same /64 as `MODEST`."""
ADA = Principal(issuer="tests", subject="ada", client_id="", label="ada")
LISTEN = message("subscriptions/listen", notifications={"toolsListChanged": True})


def from_(network: str) -> Principal:
    return replace(ANONYMOUS, network=network)


def authenticator(connection: Any) -> Principal | None:
    return ADA if "authorization" in connection.headers else None


@pytest.fixture
def _limited(configure: Any) -> None:
    """Allow one of each for a caller, and two for all anonymous callers together."""
    configure(
        AUTHENTICATOR=f"{__name__}.authenticator",
        ANONYMOUS_LIMIT_FACTOR=2,
        MAX_OPEN_REQUESTS_PER_PRINCIPAL=1,
        MAX_LISTEN_STREAMS_PER_PRINCIPAL=1,
        MAX_OPEN_TASKS_PER_PRINCIPAL=1,
        MAX_SESSIONS_PER_PRINCIPAL=1,
        MAX_CHILDREN_PER_PRINCIPAL=1,
    )


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Yields an event. Reads of the resource `x://gate` wait until it is set."""
    gate = threading.Event()

    @resource("x://gate")
    def slow() -> str:
        assert gate.wait(PATIENCE)
        return ""

    yield gate
    gate.set()


@pytest.fixture
def _task(_tools: None) -> None:
    @tool(task=TaskMode.ALWAYS)
    def lasting() -> str:
        """Take long."""
        return ""


@pytest.mark.parametrize(
    ("body", "together"),
    [
        pytest.param(LISTEN, 503, id="listen streams"),
        pytest.param(message("resources/read", uri="x://gate"), 503, id="reads"),
        pytest.param(call(), 503, id="calls"),
        pytest.param(call("lasting", meta=DECLARES_TASKS), 429, id="tasks"),
    ],
)
async def test_one_network_takes_no_more_than_one_caller_and_all_together_no_more_than_some(
    body: Any, together: int, worker: Worker, gate: threading.Event
) -> None:
    async def ask(peer: str, **options: Any) -> Connection:
        return await post(body, peer=peer, **options)

    first = await ask(GREEDY)
    await _opened(1)
    await refused(await ask(GREEDY), 429)
    second = await ask(MODEST)
    await _opened(2)
    await refused(await ask(NEIGHBOUR), 429)
    await refused(await ask(THIRD), together)
    third = await ask(THIRD, headers={"Authorization": "Bearer x"})
    await _opened(3)
    gate.set()
    for connection in (first, second, third):
        await connection.leave()


async def _opened(count: int) -> None:
    """Wait until the streams and reads of this process and the stored requests are `count` in total."""
    admission = current().admission
    held = (admission.listeners, admission.reads)
    await eventually(lambda: sum(len(each.open) for each in held) + Request.objects.count() == count)


async def test_calls_are_counted_over_all_processes(worker: Worker) -> None:
    await in_thread(rows.queued, principal=from_(GREEDY))
    await refused(await post(call(), peer=GREEDY), 429)
    client = await post(call(), peer=THIRD)
    await worker.finish(await worker.claim())
    assert await answered(client)
    await in_thread(rows.queued, principal=from_(FOURTH))
    await refused(await post(call(), peer=THIRD), 503)
    # Earlier anonymous calls do not use up the capacity for a caller with a credential.
    own = await post(call(), headers={"Authorization": "Bearer x"})
    await worker.finish(await worker.claim())
    assert await answered(own)


async def test_calls_of_one_batch_are_counted_by_network(worker: Worker) -> None:
    clients = {peer: await post(call(), peer=peer) for peer in (GREEDY, MODEST, THIRD, FOURTH)}
    stored = [await worker.claim() for _ in range(2)]
    for request_id in stored:
        await worker.finish(request_id)
    statuses = []
    for client in clients.values():
        await client.json()
        statuses.append(client.status)
    assert sorted(statuses) == [200, 200, 503, 503]


async def test_a_session_too_many_ends_one_of_the_same_network_first() -> None:
    greedy, modest = await Client.opened(peer=GREEDY), await Client.opened(peer=MODEST)
    again = await Client.opened(peer=GREEDY)
    statuses = [(await client.post(request("ping"))).status for client in (greedy, modest, again)]
    assert statuses == [404, 200, 200]
    # Sessions are found from any network.
    modest.peer = FOURTH
    assert (await modest.post(request("ping"))).status == 200


async def test_sessions_of_all_anonymous_callers_are_limited_together() -> None:
    for number in range(1, 9):
        await Client.opened(peer=f"192.0.2.{number}")
    assert await in_thread(Session.objects.count) == 2


@pytest.mark.parametrize(("caller", "other"), [(from_("a"), from_("b")), (ADA, from_("a"))])
async def test_children_and_questions_are_counted_by_network(
    worker: Worker, caller: Principal, other: Principal
) -> None:
    await in_thread(_of_children, worker, caller, other)
    await in_thread(_of_questions, worker, caller, other)


def _of_children(worker: Worker, caller: Principal, other: Principal) -> None:
    boot_id = worker.identity.boot_id
    parents = [rows.running(boot_id, principal=each) for each in (caller, caller, other)]
    started = [rows.submission(principal=Principal.of(each), parent=each.pk, depth=1) for each in parents]
    children.submit(started[0], worker=boot_id)
    with pytest.raises(TooManyChildrenError):
        children.submit(started[1], worker=boot_id)
    children.submit(started[2], worker=boot_id)


def _of_questions(worker: Worker, caller: Principal, other: Principal) -> None:
    boot_id = worker.identity.boot_id
    asked = [
        input_rounds.ask(rows.running(boot_id, principal=each).pk, rows.QUESTIONS, worker=boot_id)
        for each in (caller, caller, other)
    ]
    assert asked == [Status.INPUT_REQUIRED, Status.FAILED, Status.INPUT_REQUIRED]

    def ask(principal: Principal) -> None:
        read_questions.ask(
            read=rows.queued().pk, numbers=[1], jsonrpc_id=1, session=None, principal=principal, server=boot_id
        )

    ask(caller)
    with pytest.raises(TooManyQuestionsError):
        ask(caller)
    ask(other)


def test_all_anonymous_callers_together_have_their_factor_of_each_limit(worker: Worker) -> None:
    open_rows = Request.objects.all()
    for network in ("a", "b"):
        assert capacity.has_room(from_(network), open_rows, 1)
        rows.queued(principal=from_(network))
    assert not capacity.has_room(from_("c"), open_rows, 1)
    assert capacity.has_room(ADA, open_rows, 1)
    assert capacity.has_room(rows.queued(principal=ADA), open_rows, 2)
