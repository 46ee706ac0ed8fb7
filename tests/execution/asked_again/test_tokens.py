"""The token, the user and the endpoint are checked again when the tool of a queued call is about to start.

A call of an authenticated caller is stored. Then the test changes access and runs the worker in its own process.
"""

import logging
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core import serializers

from mcp_app.auth import tokens
from mcp_app.lifecycle import publishing
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.input.input_rounds import Retry
from mcp_app.models import Request, Token
from mcp_app.states import Status
from mcp_app.testing.worker import InProcessWorker
from tests.execution.asked_again.calls import (
    BAD,
    GONE,
    NO_INK,
    TOKENS,
    expire,
    let_in,
    lose_a_scope,
    queued,
    ran,
    revoke,
    run,
    words,
)
from tests.support import rows

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.fault("G6")]


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


def test_a_narrower_token_of_the_same_client_is_as_good_where_the_tool_takes_no_more(
    at_work: InProcessWorker, ada: User, configure: Any
) -> None:
    configure(AUTHENTICATOR=TOKENS, IMPLIED_SCOPES={"pens": ["ink"]})
    for came, now in (["pens"], ["ink"]), (["ink"], ["pens"]):
        Token.objects.all().delete()
        row = queued(let_in(tokens.issue(ada, "laptop", scopes=came, by="root").text), "refill")
        Token.objects.update(scopes=now)
        assert run(at_work, row) is None


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
    assert (row.status, ran) == (Status.FAILED, [])
    assert all(fact in words(row.result) for fact in ("plain", "not started", BAD))
    assert Request.objects.get() == row


def test_what_a_tool_has_started_is_asked_about_as_well(at_work: InProcessWorker, ada: User, configure: Any) -> None:
    configure(AUTHENTICATOR=TOKENS)
    caller = let_in(tokens.issue(ada, "laptop", by="root").text)
    parent = rows.running(uuid4(), principal=caller)
    row = queued(caller, parent=parent.pk, depth=1)
    revoke()
    assert run(at_work, row) == (401, BAD)
