"""A user's grant at the site's own authorization server is checked again when a call starts."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from mcp_app.testing.worker import InProcessWorker
from tests.execution.asked_again.calls import (
    BAD,
    GONE,
    NO_INK,
    NO_MCP,
    ORIGIN,
    Grant,
    let_in,
    queued,
    run,
)

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.fault("G6")]


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
