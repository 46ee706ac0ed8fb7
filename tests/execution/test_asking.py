"""Tools that ask (2026-07-28 basic/patterns/mrtr): a real worker replays them from the start with the known answers."""

import re
import textwrap

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.input import questions
from tests.execution import driver

BOTH = {"elicitation": {"form": {}, "url": {}}}
ACCEPTED = {"action": "accept", "content": {"n": 3}}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}


def submit(site, code, tool="python", capabilities=BOTH, **changes):
    source = f"NUMBER = {NUMBER!r}\n{textwrap.dedent(code)}"
    return site.submit(tool, {"code": source}, client_capabilities=capabilities, **changes)


def text(ended):
    return ended["result"]["content"][0]["text"]


def test_a_tool_runs_again_with_each_answer_and_does_once_what_it_asked_for(one_slot, tmp_path):
    lines = tmp_path / "lines"
    request_id = one_slot.submit("order", {"path": str(lines)}, client_capabilities=BOTH)
    asked = one_slot.ask(driver.asking, request_id)
    assert list(asked) == ["order"]
    assert asked["order"]["params"]["requestedSchema"]["required"] == ["quantity"]
    one_slot.ask(driver.answer, request_id, {"order": {"action": "accept", "content": {"quantity": 2}}})
    asked = one_slot.ask(driver.asking, request_id)
    assert asked["sure"]["params"]["message"] == "2, really?"
    one_slot.ask(driver.answer, request_id, {"sure": {"action": "decline"}})
    assert text(one_slot.ended(request_id)) == "17: 2 small, decline"
    assert lines.read_text().split() == ["run", "reserved", "run", "run"]


def test_a_tool_that_raises_what_a_question_does_without_asking_fails(one_slot):
    ended = one_slot.ended(submit(one_slot, "from mcp_app.tools import InputRequired\nraise InputRequired"))
    assert ended["status"] == "failed"
    assert (ended["error"]["cause"], ended["error"]["type"]) == ("tool", "InputRequired")


def test_the_worker_is_free_while_a_person_thinks(one_slot):
    waiting = submit(one_slot, "answer = ctx.elicit('n', 'How many?', NUMBER).content['n']")
    one_slot.ask(driver.asking, waiting)
    assert one_slot.text("pid")
    one_slot.ask(driver.answer, waiting, {"n": ACCEPTED})
    assert text(one_slot.ended(waiting)) == "3"


def test_a_question_passes_through_except_exception_and_finally(one_slot):
    code = """
        try:
            try:
                answer = ctx.elicit('n', 'How many?', NUMBER).action
            except Exception:
                answer = "swallowed"
        finally:
            ctx.log("info", "cleaned up")
    """
    request_id = submit(one_slot, code)
    one_slot.ask(driver.asking, request_id)
    one_slot.ask(driver.answer, request_id, {"n": {"action": "cancel"}})
    assert text(one_slot.ended(request_id)) == "cancel"


def test_tasks_of_an_async_tool_that_ask_together_are_one_round(one_slot):
    code = """
        async def main():
            async def ask(key):
                return ctx.elicit(key, 'How many?', NUMBER).content['n']
            token = await ctx.aonce('token', lambda: asyncio.sleep(0, 'kept'))
            async with asyncio.TaskGroup() as group:
                found = [group.create_task(ask(key)) for key in ('a', 'b')]
            return f"{token} {[each.result() for each in found]}"
    """
    request_id = submit(one_slot, code, tool="python_async")
    assert list(one_slot.ask(driver.asking, request_id)) == ["a", "b"]
    one_slot.ask(driver.answer, request_id, {"a": ACCEPTED, "b": ACCEPTED})
    assert text(one_slot.ended(request_id)) == "kept [3, 3]"


def test_an_answer_that_only_the_model_refuses_is_asked_again(one_slot, tmp_path):
    request_id = one_slot.submit("order", {"path": str(tmp_path / "lines")}, client_capabilities=BOTH)
    one_slot.ask(driver.asking, request_id)
    one_slot.ask(driver.answer, request_id, {"order": {"action": "accept", "content": {"quantity": 10}}})
    message = one_slot.ask(driver.asking, request_id)["order"]["params"]["message"]
    question, told = message.split("\n\n")
    assert question == "How many, and how large?"
    assert all(fact in told for fact in ("not valid", "quantity:"))
    assert one_slot.cancel(request_id) == "accepted"
    assert one_slot.ended(request_id)["status"] == "cancelled"


def test_a_page_is_asked_for_until_it_is_completed(one_slot):
    code = """
        signed = ctx.elicit_page('page', 'Sign there.', 'home')
        answer = f"{signed.action} {signed.content}"
    """
    user = one_slot.ask(driver.make_user, "ada")
    ada = Principal("site", user, "editor", "Ada", user)
    request_id = submit(one_slot, code, principal=ada)
    params = one_slot.ask(driver.asking, request_id)["page"]["params"]
    assert params["url"].startswith("https://example.com/?visit=")
    one_slot.ask(driver.answer, request_id, {"page": {"action": "accept"}})
    again = one_slot.ask(driver.asking, request_id)["page"]["params"]
    assert again["url"] == params["url"]
    assert "not completed" in again["message"]
    one_slot.ask(driver.visit, request_id, "page", 17)
    one_slot.ask(driver.answer, request_id, {"page": {"action": "accept"}})
    assert text(one_slot.ended(request_id)) == "accept 17"
    nobody = one_slot.ended(submit(one_slot, code))
    assert "account" in text(nobody)


def test_a_client_that_cannot_be_asked_ends_the_call_unless_its_tool_catches_that(one_slot):
    ended = one_slot.ended(submit(one_slot, "ctx.elicit('n', 'How many?', NUMBER)", capabilities={}))
    assert (ended["status"], ended["result"]) == ("failed", None)
    told = ended["error"].pop("message")
    assert "elicitation form" in told
    assert "session" not in told
    assert ended["error"] == {
        "cause": "protocol",
        "code": -32021,
        "data": {"requiredCapabilities": {"elicitation": {"form": {}}}},
    }
    older = one_slot.ended(
        submit(one_slot, "ctx.elicit('n', 'How many?', NUMBER)", capabilities={}, protocol_version="2025-11-25")
    )
    assert all(fact in text(older) for fact in ("elicitation form", "session", "event streams"))
    url_only = {"elicitation": {"url": {}}}
    caught = one_slot.ended(one_slot.submit("ask_if_possible", {}, client_capabilities=url_only))
    assert caught["status"] == "completed"
    assert "elicitation form" in text(caught)


def test_a_question_that_a_revision_cannot_put_ends_the_call_in_words(one_slot):
    several = "{'type': 'object', 'properties': {'n': {'type': 'array', 'items': {'type': 'string', 'enum': ['a']}}}}"
    for version, code, words in (
        ("2025-03-26", "ctx.elicit('n', 'How many?', NUMBER)", "for input"),
        ("2025-06-18", "ctx.elicit_url('n', 'Sign', 'https://example.com')", "a page"),
        ("2025-06-18", f"ctx.elicit('n', 'Which?', {several})", "several items"),
    ):
        told = text(one_slot.ended(submit(one_slot, code, protocol_version=version)))
        assert all(fact in told for fact in (words, f"MCP {version}"))


def test_an_error_in_place_of_an_answer_is_raised_where_the_question_stands(one_slot):
    code = """
        from mcp_app.tools import CannotAsk
        try:
            ctx.sample('s', 'Say something.', max_tokens=9)
        except CannotAsk as error:
            answer = f'did without: {error}'
    """
    request_id = submit(one_slot, code, capabilities={"sampling": {}}, protocol_version="2025-06-18")
    one_slot.ask(driver.asking, request_id)
    one_slot.ask(driver.answer, request_id, {"s": questions.error_answer("The user said no.")})
    assert text(one_slot.ended(request_id)) == "did without: The user said no."
    # A modern client may send anything with its call.
    request_id = submit(one_slot, code, capabilities={"sampling": {}}, answers={"s": questions.error_answer("Forged.")})
    assert list(one_slot.ask(driver.asking, request_id)) == ["s"]
    one_slot.cancel(request_id)


def test_a_question_cannot_be_asked_inside_a_shield_and_no_key_twice(one_slot):
    code = """
        try:
            with ctx.shield():
                ctx.elicit('n', 'How many?', NUMBER)
        except RuntimeError as error:
            answer = str(error)
        try:
            ctx.elicit('n', 'How much?', NUMBER)
        except ValueError as error:
            answer += str(error)
    """
    said = text(one_slot.ended(submit(one_slot, code)))
    assert re.search(r"shield\(\).* 'n' .*two questions", said)


def test_what_is_done_once_is_plain_json(one_slot):
    ended = one_slot.ended(submit(one_slot, "ctx.once('x', lambda: object())"))
    assert ended["error"]["type"] == "TypeError"
    assert ended["kept"] == {}
