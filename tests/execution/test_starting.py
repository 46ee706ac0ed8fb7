"""Tools that start others: real calls of the same caller in other processes, awaited or not."""

import re
from dataclasses import replace

import pytest

from mcp_app.auth.principal import Principal
from tests.execution import driver
from tests.execution.families import (
    answer,
    assert_still,
    child_of,
    python,
    stepping,
    words,
)


def test_what_a_tool_starts_is_a_call_of_the_same_caller_without_a_client(family):
    code = """
        call = ctx.start("python", code="ctx.progress(1, 2, 'half')\\nanswer = {'pid': os.getpid()}")
        pid = call.result(timeout=20).structured_content["pid"]
        answer = [str(call.id), call.status, pid != os.getpid()]
    """
    request_id = python(family, code, progress_token="mine", server=None)
    ended = family.ended(request_id)
    [child] = family.ask(driver.children, request_id)
    assert ended["result"]["structuredContent"] == [str(child["id"]), "completed", True]
    assert (child["tool"], child["depth"], child["principal_label"]) == ("python", 1, ended["principal_label"])
    assert (child["server"], child["session"], child["progress_token"], child["task_handle"]) == (None,) * 4
    assert "progress" in [kind for kind, _ in family.ask(driver.events, str(child["id"]))]
    assert "progress" not in [kind for kind, _ in family.ask(driver.events, request_id)]
    assert ended["children"] == 1


def test_a_coroutine_awaits_several(family):
    code = """
        async def main():
            calls = [ctx.start("brief", path="/dev/null", name=name, seconds=0.05) for name in "abc"]
            return [result.content[0].text for result in await asyncio.gather(*calls)]
    """
    assert answer(family, code, "python_async") == ["a", "b", "c"]


def test_a_result_can_be_handed_on_as_it_is(family):
    assert answer(family, "answer = ctx.start('brief', path='/dev/null', name='x', seconds=0).result()") == "x"


def test_a_child_that_fails_raises_its_words_which_uncaught_are_the_starters(family):
    fails = "from mcp_app.tools import ToolError; raise ToolError('out of ink')"
    ended = family.ended(python(family, f"ctx.start('python', code={fails!r}).result()"))
    assert (ended["status"], words(ended)) == ("failed", "out of ink")
    caught = f"""
        from mcp_app.tools import CallFailed
        try:
            ctx.start('python', code={fails!r}).result()
        except CallFailed as error:
            answer = [str(error), error.tool, error.status]
    """
    assert answer(family, caught) == ["out of ink", "python", "failed"]


@pytest.mark.parametrize(
    ("start", "facts"),
    [
        ("ctx.start('nothing')", ("Unknown tool", "nothing")),
        ("ctx.start('brief', path='/dev/null')", ("name:", "required")),
        ("ctx.start('order', path='/dev/null').result()", ("order", "no client")),
    ],
    ids=["unknown", "arguments", "asks"],
)
def test_what_cannot_be_started_says_why(family, start, facts):
    ended = family.ended(python(family, start))
    assert ended["status"] == "failed"
    assert all(fact in words(ended) for fact in facts)


@pytest.mark.fault("G6")
def test_a_tool_starts_nothing_that_its_caller_may_not_call(family, tmp_path):
    code = "answer = ctx.start({!r}{}).result().content[0].text"
    key = family.ask(driver.make_user, "starter")
    nobody = Principal("django", key, "", "starter", user_id=key, scopes=frozenset({"paper"}))
    refused = family.ended(
        python(family, code.format("permitted", f", path={str(tmp_path / 'ran')!r}"), principal=nobody)
    )
    assert "Unknown tool: permitted" in words(refused)
    refused = family.ended(python(family, code.format("refill", ""), principal=nobody))
    assert all(fact in words(refused) for fact in ("refill", "not started", "scope ink"))
    again = code.format("python", f", code={code.format('refill', '')!r}")
    assert answer(family, again, principal=replace(nobody, scopes=frozenset({"ink"}))) == "filled"
    assert "scope ink" in words(family.ended(python(family, again, principal=nobody)))


def test_calls_start_one_another_to_a_depth(family):
    nested = "ctx.check()"
    for _ in range(4):
        nested = f"ctx.start('python', code={nested!r}).result()"
    request_id = python(family, nested, depth=1)
    ended = family.ended(request_id)
    assert re.search(r"nested .*at most 3\b", words(ended))
    assert family.ask(driver.children, request_id)[0]["depth"] == 2


def test_what_was_started_is_not_undone_with_the_starters_transaction(family):
    code = """
        from django.db import transaction
        try:
            with transaction.atomic():
                call = ctx.start("pid")
                raise KeyError
        except KeyError:
            answer = call.result().content[0].text
    """
    assert int(answer(family, code))


def test_a_wait_has_its_bound_and_what_is_waited_for_goes_on_until_it_is_cancelled(family, tmp_path):
    path = tmp_path / "steps"
    code = f"""
        call = ctx.start("python", code={stepping(path)!r})
        while not os.path.exists({str(path)!r}):
            ctx.sleep(0.01)
        try:
            call.result(timeout=0.1)
        except TimeoutError:
            before = call.status
        call.cancel("had enough")
        call.cancel("had enough")
        try:
            call.result()
        except Exception as error:
            answer = [before, type(error).__name__, str(error)]
    """
    request_id = python(family, code)
    ended = family.ended(request_id)["result"]["structuredContent"]
    assert ended[:2] == ["running", "CallFailed"]
    assert "Reason: had enough" in ended[2]
    [attempt] = family.ask(driver.attempts, str(child_of(family, request_id)["id"]))
    assert (attempt["actor"], attempt["outcome"]) == ("tool python", "accepted")
    assert_still(path)
