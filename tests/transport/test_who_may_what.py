"""Every caller of an endpoint makes every request, about their own objects and about others'.

The callers have real tokens, or none. Their rejections are compared literally with those for
objects that never existed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client as Browser

from mcp_app.auth import tokens
from mcp_app.auth.authentication import HeaderFields, HTTPConnection, authenticate
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.models import Request, Session
from mcp_app.prompts import prompt
from mcp_app.resources import resource
from mcp_app.states import Cause, Status, TaskMode
from mcp_app.tools import tool
from tests.interaction import tasks
from tests.support.asgi_client import Connection, ask, call, message, post, run
from tests.support.legacy_asgi_client import Client, notification, request
from tests.support.legacy_asgi_client import call as legacy_call
from tests.support.worker import Worker, in_thread, row
from tests.transport.asker import AUTHENTICATOR, set_caller

pytestmark = pytest.mark.usefixtures("_declared")


ANONYMOUS, ADA, BOB, STAFF, SCOPED = "anonymous", "a user", "another user", "staff", "a scoped token"
CALLERS: Final = (ANONYMOUS, ADA, BOB, STAFF, SCOPED)
"""The scoped token belongs to the first user, but to another client, which shares nothing with the user."""

LIMITS: Final[dict[str, dict[str, Any]]] = {
    "open": {},
    "permitted": {"permissions": ["auth.view_user"]},
    "grouped": {"groups": ["editors"]},
    "scoped": {"scopes": ["files:write"]},
}
YES, NO, MORE = "may", "is hidden", "takes another token"
MAY: Final = {
    "open": (YES, YES, YES, YES, YES),
    "permitted": (NO, YES, NO, NO, YES),
    "grouped": (NO, NO, NO, YES, NO),
    "scoped": (MORE, YES, YES, YES, MORE),
}
"""The outcomes by requirement, in the order of the callers."""


@dataclass(frozen=True)
class People:
    """The callers as the endpoint knows them, and the users among them."""

    principals: dict[str, Principal]
    users: dict[str, User]

    def ask_as(self, caller: str) -> None:
        """Make every later request come from this caller."""
        set_caller(None if caller == ANONYMOUS else self.principals[caller])

    def other_than(self, caller: str) -> Iterator[str]:
        """Yield the other callers. Each one is the caller of all requests until the next is yielded."""
        for other in CALLERS:
            if other != caller:
                self.ask_as(other)
                yield other


@pytest.fixture
def people(configure: Callable[..., None]) -> People:
    configure(ALLOW_ANONYMOUS=True, AUTHENTICATOR="mcp_app.auth.tokens.bearer")
    users = {caller: User.objects.create_user(name) for caller, name in ((ADA, "ada"), (BOB, "bob"))}
    users[STAFF] = User.objects.create_user("grace", is_staff=True)
    users[ADA].user_permissions.add(Permission.objects.get(codename="view_user"))
    users[STAFF].groups.add(Group.objects.create(name="editors"))
    users[STAFF].user_permissions.set(Permission.objects.filter(codename__in=["view_request", "cancel_request"]))
    made = {caller: tokens.issue(user, "laptop", by="test").text for caller, user in users.items()}
    made[SCOPED] = tokens.issue(users[ADA], "reader", by="test", scopes=["files:read"]).text
    principals = {ANONYMOUS: _proved(None), **{caller: _proved(text) for caller, text in made.items()}}
    configure(AUTHENTICATOR=AUTHENTICATOR)
    return People({caller: principals[caller] for caller in CALLERS}, users)


def _proved(token: str | None) -> Principal:
    fields = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    principal = authenticate(HTTPConnection(HeaderFields(fields), "192.0.2.1", "/mcp"))
    assert isinstance(principal, Principal)
    return principal


@pytest.fixture
def _declared() -> Iterator[None]:
    with isolated_registries():
        for kind, limits in LIMITS.items():
            tool(name=kind, **limits)(lambda: "done")
            resource(f"{kind}://one", **limits)(lambda: "one")
            prompt(name=kind, **limits)(lambda: "words")
        tool(name="job", task=TaskMode.ALWAYS)(lambda: "done")
        yield


@pytest.mark.fault("G5", "G6")
@pytest.mark.parametrize("caller", CALLERS)
def test_a_caller_lists_and_uses_what_the_site_grants_them_and_nothing_else(
    people: People, worker: Worker, caller: str
) -> None:
    people.ask_as(caller)
    granted = {kind: by_caller[CALLERS.index(caller)] for kind, by_caller in MAY.items()}

    async def scenario() -> None:
        assert await _listed() == {kind for kind, answer in granted.items() if answer != NO}
        for kind, answer in granted.items():
            for use in (_call, _read, _get):
                got = await use(kind, worker if answer == YES else None)
                assert got == (answer if answer != NO else await use("nothing", None)), (kind, use)
        assert await in_thread(Request.objects.count) == list(granted.values()).count(YES)

    run(scenario())


async def _listed() -> set[str]:
    found = []
    for method, member in (("tools", "name"), ("resources", "uri"), ("prompts", "name")):
        names = {each[member].partition(":")[0] for each in (await ask(f"{method}/list"))["result"][method]}
        found.append(names - {"job"})
    assert found[0] == found[1] == found[2]
    return found[0]


async def _call(name: str, worker: Worker | None) -> Any:
    client = await post(call(name))
    if worker is not None:
        await worker.finish(await worker.claim())
    return await _outcome(client, name)


async def _read(name: str, _: Worker | None) -> Any:
    return await _outcome(await post(message("resources/read", uri=f"{name}://one")), name)


async def _get(name: str, _: Worker | None) -> Any:
    return await _outcome(await post(message("prompts/get", name=name)), name)


async def _outcome(client: Connection, name: str) -> Any:
    """Return `YES`, `MORE`, or the rejection without the name."""
    answer, status = await client.json(), client.status
    if "result" in answer:
        return YES
    error = answer["error"]
    return MORE if status in (401, 403) else (status, str(error).replace(name, "…"))


@pytest.mark.fault("B5", "G5")
@pytest.mark.parametrize("owner", CALLERS)
async def test_a_task_is_its_callers_alone(people: People, worker: Worker, owner: str) -> None:
    people.ask_as(owner)
    created, running = await tasks.start(worker, "job")
    for other in people.other_than(owner):
        for method in tasks.METHODS:
            told = await tasks.send(method, created["taskId"])
            assert told == await tasks.send(method, tasks.STRANGER), (other, method)
        subscribed, acknowledged = await tasks.listen(created["taskId"])
        assert acknowledged == {}, other
        await subscribed.leave()
    assert await _is_untouched(running.pk)
    people.ask_as(owner)
    assert (await tasks.get(created["taskId"]))["status"] == "working"
    await tasks.result_of("tasks/cancel", created["taskId"])
    assert (await row(running.pk)).cancel_cause == Cause.CLIENT
    await worker.finish(running.pk, Status.CANCELLED)


@pytest.mark.fault("B5", "G5")
@pytest.mark.parametrize("owner", CALLERS)
async def test_a_session_and_its_calls_are_its_callers_alone(people: People, worker: Worker, owner: str) -> None:
    cancelling = notification("notifications/cancelled", requestId=7)
    people.ask_as(owner)
    client = await Client.opened()
    stream = await client.begin(legacy_call("open", 7))
    running = await worker.claim()
    for other in people.other_than(owner):
        unknown = replace(client, session="0" * 32)
        for each in (request("ping"), cancelling, legacy_call("open", 8)):
            refused, none = [await _refusal(one, each) for one in (client, unknown)]
            assert refused == none, other
        for ask_for in (client.get, lambda: client.get("1-1"), client.delete):
            assert (await ask_for()).status == 404, other
        theirs = await Client.opened()
        assert (await theirs.post(cancelling)).status == 202
    assert await _is_untouched(running)
    people.ask_as(owner)
    await (await client.post(cancelling)).body()
    assert (await row(running)).cancel_cause == Cause.CLIENT
    await worker.finish(running, Status.CANCELLED)
    await stream.head()
    await stream.body()
    assert (await client.delete()).status == 200
    assert not await in_thread(Session.objects.filter(**people.principals[owner].columns).exists)


async def _refusal(client: Client, body: dict[str, Any]) -> bytes:
    answer = await client.begin(body)
    await answer.head()
    assert answer.status == 404
    return await answer.body()


async def _is_untouched(request_id: UUID) -> bool:
    found = await row(request_id)
    return found.status == Status.RUNNING and found.cancel_requested_at is None


OPEN, REFUSED, LOG_IN = 200, 403, 302
PAGES: Final = {
    "": OPEN,
    "request/": OPEN,
    "inflightrequest/": OPEN,
    "cancelledrequest/": OPEN,
    "request/{pk}/change/": OPEN,
    "tool/": REFUSED,
    "cancellation/": REFUSED,
    "token/": REFUSED,
}
"""The pages for a member of the staff who may see and cancel requests, regardless of their owner.
"""


@pytest.mark.fault("G5", "G8")
@pytest.mark.parametrize("caller", CALLERS)
async def test_the_admin_is_for_staff_with_the_permission_and_for_no_token(
    people: People, worker: Worker, caller: str
) -> None:
    people.ask_as(ADA)

    def visit(pk: UUID) -> None:
        browser = Browser()
        if caller in people.users:
            browser.force_login(people.users[caller])
        for page, staff in PAGES.items():
            given = browser.get(f"/admin/mcp_app/{page.format(pk=pk)}")
            assert given.status_code == (staff if caller == STAFF else LOG_IN), page
            if given.status_code == LOG_IN:
                assert given.url.startswith("/admin/login/")
        browser.post(f"/admin/mcp_app/request/{pk}/cancel/", {"reason": "too dear"})
        cancelled = Request.objects.get(pk=pk).cancel_actor
        assert cancelled == ("grace" if caller == STAFF else "")

    _, running = await tasks.start(worker, "job")
    await in_thread(visit, running.pk)
    await worker.finish(running.pk, Status.CANCELLED)
