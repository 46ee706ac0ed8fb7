"""The endpoint's rules are checked again when the tool of a queued call is about to start."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User

from mcp_app.auth import local, tokens
from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.models import Request
from mcp_app.testing.worker import InProcessWorker
from mcp_app.tools import tool
from tests.execution.asked_again.calls import (
    GONE,
    NO_ENDPOINT,
    NO_INK,
    NO_TOOL,
    SHUT,
    TOKENS,
    let_in,
    queued,
    ran,
    run,
)

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.fault("G6")]


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
        (lambda configure: _withdraw(), (-32602, NO_TOOL)),
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
    """Offer the tool at another endpoint, as its next release may do."""
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
