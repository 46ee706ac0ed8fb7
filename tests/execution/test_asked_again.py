"""Who asked is asked about again when a queued call's tool is to start: the user, the endpoint, the token.

A call of whom an authenticator let in is stored, and run by the worker of the test's own process once things changed.
"""

import logging
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core import serializers
from django.utils import timezone
from django.utils.module_loading import import_string
from oauth2_provider.models import AccessToken, Application, RefreshToken, set_token_value
from pydantic import BaseModel

from mcp_app import conf
from mcp_app.auth import local, tokens
from mcp_app.auth.connection import HeaderFields, HTTPConnection
from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.lifecycle import broker, input_rounds, publishing
from mcp_app.lifecycle.input_rounds import Retry
from mcp_app.models import Request, Token
from mcp_app.states import Status
from mcp_app.testing import worker
from mcp_app.testing.connections import BorrowedConnections
from mcp_app.testing.worker import InProcessWorker
from mcp_app.tools import ToolContext, tool
from tests.auth.own_server import of_page
from tests.lifecycle import rows

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.fault("G6")]

TOKENS = "mcp_app.auth.tokens.bearer"
ORIGIN = "https://mcp.example.com"
RESOURCE = f"{ORIGIN}/mcp"
BAD = "The credentials of this call are not good, or not good any more; ask the server's operator for new ones."
GONE = "The user of this call may not log in any more."
SHUT = "You may not use this endpoint; ask its operator."
NO_ENDPOINT = "The endpoint of this call is not there any more."
NO_INK = "Your token was not given for this; ask for one with the scope ink."
NO_MCP = "Your token was not given for this; ask for one with the scope mcp."

ran: list[str] = []


class Ready(BaseModel):
    word: str


@pytest.fixture(autouse=True)
def _tools() -> Iterator[None]:
    ran.clear()
    with isolated_registries():

        @tool
        def plain() -> None:
            ran.append("plain")

        @tool(scopes=["ink"])
        def refill() -> None:
            ran.append("refill")

        @tool
        def asks(ctx: ToolContext) -> None:
            ctx.elicit("ready", "Ready?", Ready)
            ran.append("asks")

        @tool
        def starts(ctx: ToolContext) -> None:
            revoke()
            ctx.start("plain")

        @tool(endpoints=["staff", "other"])
        def internal() -> None:
            ran.append("internal")

        yield


@pytest.fixture(name="at_work")
def _at_work() -> Iterator[InProcessWorker]:
    here = worker.current()
    here.recorder.lent = BorrowedConnections()
    with broker.replaced_by(here):
        yield here


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


def let_in(token: str, endpoint: str = "default") -> Principal:
    """Who the authenticator of an endpoint says shows this token."""
    fields = HeaderFields([(b"authorization", f"Bearer {token}".encode())])
    asked = import_string(conf.settings.at(endpoint).AUTHENTICATOR)
    return replace(asked(HTTPConnection(fields, "192.0.2.1", "/mcp", endpoint)), endpoint=endpoint)


def queued(principal: Principal, name: str = "plain", **changes: Any) -> Request:
    asking = {"elicitation": {"form": {}}}
    row = rows.queued(tool=name, arguments={}, principal=principal, client_capabilities=asking, **changes)
    publishing.publish(row)
    return row


def run(at_work: InProcessWorker, row: Request) -> tuple[int, str] | None:
    """Have the worker take what is queued; the error that the caller of this call is told, None where it ran."""
    at_work.run_queued()
    row.refresh_from_db()
    if row.status == Status.COMPLETED:
        assert ran.pop() == row.tool
        return None
    assert (row.status, ran) == (Status.FAILED, [])
    assert row.error is not None
    return row.error["code"], row.error["message"]


def lose_a_scope() -> None:
    Token.objects.update(scopes=["paper"])


def expire() -> None:
    Token.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def revoke() -> None:
    tokens.revoke(Token.objects.values_list("prefix", flat=True), by="root")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (revoke, (401, BAD)),
        (expire, (401, BAD)),
        (lambda: Token.objects.all().delete(), (401, BAD)),
        (lose_a_scope, (403, NO_INK)),
        (lambda: User.objects.update(is_active=False), (401, GONE)),
        (lambda: User.objects.all().delete(), (401, GONE)),
        (lambda: None, None),
    ],
    ids=["revoked", "expired", "deleted", "scope", "user not active", "user deleted", "nothing"],
)
def test_a_token_that_ended_while_its_call_was_queued_runs_nothing(
    at_work: InProcessWorker, ada: User, configure: Any, change: Callable[[], object], told: Any
) -> None:
    configure(AUTHENTICATOR=TOKENS)
    issued = tokens.issue(ada, "laptop", by="root", scopes=["ink", "paper"])
    row = queued(let_in(issued.text), "refill")
    change()
    assert run(at_work, row) == told


def test_a_token_without_limits_may_be_limited_meanwhile(at_work: InProcessWorker, ada: User, configure: Any) -> None:
    configure(AUTHENTICATOR=TOKENS, IMPLIED_SCOPES={"pens": ["ink"]})
    caller = let_in(tokens.issue(ada, "laptop", by="root").text)
    row = queued(caller, "refill")
    lose_a_scope()
    assert run(at_work, row) == (403, NO_INK)
    assert run(at_work, queued(caller)) is None
    Token.objects.update(scopes=["pens"])
    assert run(at_work, queued(caller, "refill")) is None


def test_the_other_tokens_of_a_user_are_none_of_its_business(
    at_work: InProcessWorker, ada: User, configure: Any
) -> None:
    configure(AUTHENTICATOR=TOKENS)
    kept, revoked = (tokens.issue(ada, name, by="root") for name in ("laptop", "phone"))
    row = queued(let_in(kept.text))
    tokens.revoke([revoked.row.prefix], by="root")
    assert run(at_work, row) is None


def test_no_credential_is_stored_for_that_nor_logged(
    at_work: InProcessWorker, ada: User, configure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    configure(AUTHENTICATOR=TOKENS)
    issued = tokens.issue(ada, "laptop", by="root")
    row = queued(let_in(issued.text))
    revoke()
    run(at_work, row)
    secret = issued.text.removeprefix(f"mcp_{issued.row.prefix}_")
    stored = serializers.serialize("json", Request.objects.all())
    assert issued.row.prefix in stored
    for kept in (secret, issued.row.digest):
        assert kept not in f"{stored}{caplog.text}"


def test_a_call_that_waited_for_its_user_is_asked_about_once_more(
    at_work: InProcessWorker, ada: User, configure: Any
) -> None:
    configure(AUTHENTICATOR=TOKENS)
    row = queued(let_in(tokens.issue(ada, "laptop", by="root").text), "asks")
    at_work.run_queued()
    row.refresh_from_db()
    assert row.status == Status.INPUT_REQUIRED
    answers = {"ready": {"action": "decline"}}
    answered = input_rounds.answer(row.pk, row.input_round, answers, {}, Retry(jsonrpc_id=2))
    assert answered is not None
    publishing.publish(answered)
    revoke()
    assert run(at_work, row) == (401, BAD)


def test_a_tool_starts_nothing_for_a_token_that_ended_while_it_ran(
    at_work: InProcessWorker, ada: User, configure: Any
) -> None:
    configure(AUTHENTICATOR=TOKENS)
    row = queued(let_in(tokens.issue(ada, "laptop", by="root").text), "starts")
    at_work.run_queued()
    row.refresh_from_db()
    assert (row.status, words(row.result), ran) == (Status.FAILED, f"plain was not started: {BAD}", [])
    assert Request.objects.get() == row


def test_what_a_tool_has_started_is_asked_about_as_well(at_work: InProcessWorker, ada: User, configure: Any) -> None:
    configure(AUTHENTICATOR=TOKENS)
    caller = let_in(tokens.issue(ada, "laptop", by="root").text)
    parent = rows.running(uuid4(), principal=caller)
    row = queued(caller, parent=parent.pk, depth=1)
    revoke()
    assert run(at_work, row) == (401, BAD)


def words(result: Any) -> str:
    return str(result["content"][0]["text"])


STAFF = {"staff": {"PATH": "/mcp/staff", "GROUPS": ["staff"], "PERMISSIONS": ["auth.view_user"]}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda configure: User.objects.get().groups.clear(), (403, SHUT)),
        (lambda configure: User.objects.get().user_permissions.clear(), (403, SHUT)),
        (lambda configure: configure(ENDPOINTS={"staff": {**STAFF["staff"], "GROUPS": ["board"]}}), (403, SHUT)),
        (
            lambda configure: configure(ENDPOINTS={"other": {"PATH": "/mcp/other"}}),
            (404, NO_ENDPOINT),
        ),
        (lambda configure: configure(ENDPOINTS={}), (404, NO_ENDPOINT)),
        (lambda configure: _withdraw(), (-32602, "Unknown tool: internal.")),
        (lambda configure: None, None),
    ],
    ids=["group", "permission", "asks for more", "endpoint gone", "no endpoints", "tool withdrawn", "nothing"],
)
def test_who_lost_what_the_endpoint_takes_is_refused_when_their_call_is_to_start(
    at_work: InProcessWorker, ada: User, configure: Any, change: Callable[[Any], object], told: Any
) -> None:
    configure(AUTHENTICATOR=TOKENS, ENDPOINTS=STAFF)
    ada.groups.add(Group.objects.create(name="staff"))
    ada.user_permissions.add(Permission.objects.get(codename="view_user"))
    row = queued(let_in(tokens.issue(ada, "laptop", by="root").text, "staff"), "internal")
    change(configure)
    assert run(at_work, row) == told


def _withdraw() -> None:
    """The tool's next release is offered elsewhere."""
    from mcp_app.catalogue.registry import _registry

    del _registry._declared["internal"]
    tool(name="internal", endpoints=["other"])(lambda: ran.append("internal"))


def test_who_started_a_server_on_stdio_has_no_door_to_pass_and_is_a_user_all_the_same(
    at_work: InProcessWorker, ada: User, configure: Any
) -> None:
    configure(ENDPOINTS=STAFF)
    assert run(at_work, queued(local.local_principal("staff"), "internal")) is None
    acting = local.acting_for("ada", "staff")
    assert run(at_work, queued(acting, "internal")) is None
    row = queued(acting, "internal")
    User.objects.update(is_active=False)
    assert run(at_work, row) == (401, GONE)


def test_the_anonymous_are_asked_for_nothing_until_their_endpoint_takes_something(
    at_work: InProcessWorker, configure: Any
) -> None:
    assert run(at_work, queued(ANONYMOUS)) is None
    row = queued(ANONYMOUS)
    configure(GROUPS=["staff"])
    assert run(at_work, row) == (403, SHUT)


def test_of_what_others_issued_the_tools_scopes_are_asked_and_nothing_else(at_work: InProcessWorker) -> None:
    def of(*scopes: str) -> Request:
        caller = Principal("https://login.example.com", "7", "0123456789ab", "ada", scopes=frozenset(scopes))
        return queued(caller, "refill")

    assert run(at_work, of("ink")) is None
    assert run(at_work, of("paper")) == (403, NO_INK)


class Grant:
    """What a user let a client do at the site that is its own authorization server."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.client = Application.objects.create(client_id=f"client-{uuid4().hex}", name="Editor", user=None)

    def issue(self, scope: str = "mcp ink", resource: str = RESOURCE, *, renewable: bool = True) -> str:
        text, in_an_hour = secrets.token_urlsafe(20), timezone.now() + timedelta(hours=1)
        row = AccessToken(user=self.user, application=self.client, scope=scope, resource=[resource], expires=in_an_hour)
        set_token_value(row, text)
        row.save()
        if renewable:
            renews = RefreshToken(user=self.user, application=self.client, access_token=row, resource=[resource])
            set_token_value(renews, secrets.token_urlsafe(20))
            renews.save()
        return text

    @property
    def newest(self) -> AccessToken:
        found: AccessToken = AccessToken.objects.filter(application=self.client).latest("pk")
        return found

    def renew(self, **changes: Any) -> None:
        """As its client does, again and again."""
        self.newest.refresh_token.revoke()
        self.issue(**changes)

    def age(self, **by: float) -> None:
        AccessToken.objects.update(expires=timezone.now() - timedelta(**by))


@pytest.fixture
def grant(ada: User, settings: Any, configure: Any) -> Grant:
    values = of_page(ORIGIN)
    scopes = {**values["OAUTH2_PROVIDER"]["SCOPES"], "ink": "Fill in"}
    settings.OAUTH2_PROVIDER = {**values["OAUTH2_PROVIDER"], "SCOPES": scopes}
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # of the client's secret
    configure(**values["MCP"])
    return Grant(ada)


REFUSED: list[tuple[str, Callable[[Grant], object], tuple[int, str]]] = [
    ("revoked", lambda grant: grant.newest.refresh_token.revoke(), (401, BAD)),
    ("expired for good", lambda grant: grant.age(days=15), (401, BAD)),
    ("client deleted", lambda grant: grant.client.delete(), (401, BAD)),
    ("user not active", lambda grant: User.objects.update(is_active=False), (401, GONE)),
    ("for another resource", lambda grant: grant.renew(resource=f"{ORIGIN}/other"), (401, BAD)),
    ("less", lambda grant: grant.renew(scope="mcp"), (403, NO_INK)),
    ("not for the endpoint", lambda grant: grant.renew(scope="ink"), (403, NO_MCP)),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), [pytest.param(*case[1:], id=case[0]) for case in REFUSED])
def test_a_client_that_its_user_lets_in_no_more_runs_nothing(
    at_work: InProcessWorker, grant: Grant, change: Callable[[Grant], object], told: Any
) -> None:
    row = queued(let_in(grant.issue()), "refill")
    change(grant)
    assert run(at_work, row) == told


@pytest.mark.parametrize(
    "change",
    [lambda grant: grant.renew(), lambda grant: grant.age(days=13), lambda grant: Grant(grant.user).issue("mcp")],
    ids=["renewed", "to be renewed", "another client"],
)
def test_a_client_that_renews_its_tokens_keeps_its_calls(
    at_work: InProcessWorker, grant: Grant, change: Callable[[Grant], object]
) -> None:
    row = queued(let_in(grant.issue()), "refill")
    change(grant)
    assert run(at_work, row) is None


def test_a_token_that_cannot_be_renewed_ends_when_it_expires(at_work: InProcessWorker, grant: Grant) -> None:
    row = queued(let_in(grant.issue(renewable=False)), "refill")
    Grant(grant.user).issue()
    grant.age(seconds=1)
    assert run(at_work, row) == (401, BAD)


def test_another_token_of_the_same_client_adds_nothing_to_what_the_call_came_with(
    at_work: InProcessWorker, grant: Grant
) -> None:
    caller = let_in(grant.issue("mcp"))
    grant.issue("mcp ink")
    assert run(at_work, queued(caller, "refill")) == (
        403,
        NO_INK,
    )
