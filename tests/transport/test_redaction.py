"""A site's redaction. The call runs with the original values; after it, only redacted values are stored.

The worker is real, in a thread. Every secret of these tests begins with `SECRET`.
"""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.errors import ToolError
from mcp_app.catalogue.registry import tool
from mcp_app.execution.tool.context import ToolContext
from mcp_app.execution.tool.log_records import ToolLogHandler
from mcp_app.lifecycle import redaction
from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.redaction import MARKER
from mcp_app.models import Request
from mcp_app.states import Cause, Status
from tests.support.asgi_client import META, call, message, post, run
from tests.support.rows import story
from tests.support.thread_worker import ThreadWorker
from tests.support.worker import eventually, in_thread
from tests.transport import left_behind

pytestmark = pytest.mark.usefixtures("_tools", "log")


SECRET = "hush-4711"
STREAM = "application/json, text/event-stream"
site_log = logging.getLogger("tests.site")
_asked: list[tuple[str, str]] = []


def hide(kind: str, tool_name: str, value: Any) -> Any:
    _asked.append((kind, tool_name))
    return _hidden(value)


def _hidden(value: Any) -> Any:
    """Redact a value, in place if possible, as careless functions do."""
    if isinstance(value, str):
        return "***" if SECRET in value else value
    if isinstance(value, dict):
        for key in value:
            value[key] = _hidden(value[key])
    return [_hidden(member) for member in value] if isinstance(value, list) else value


def hide_number(kind: str, tool_name: str, value: Any) -> Any:
    """Redact the card number at its known place, as most functions do."""
    if kind == "arguments" and tool_name in ("pay", "hand_on"):
        value["card"]["number"] = "***"
    return value


def fail(kind: str, tool_name: str, value: Any) -> Any:
    raise RuntimeError(f"cannot hide {value}")


def forget_to_return(kind: str, tool_name: str, value: Any) -> Any: ...


def return_no_json(kind: str, tool_name: str, value: Any) -> Any:
    return {"value": {value} if isinstance(value, str) else {1}}


def return_no_number(kind: str, tool_name: str, value: Any) -> Any:
    return {"n": float("nan")}


def say(kind: str, tool_name: str, value: Any) -> Any:
    site_log.warning("hiding %s", kind)
    return value


class Account(BaseModel):
    account: str


@pytest.fixture
def _tools() -> Iterator[None]:
    with isolated_registries():

        @tool
        def sign_in(password: str, ctx: ToolContext) -> dict[str, str]:
            """Sign in, with progress, log lines, a question and a step that runs once."""
            ctx.progress(1, 2, f"as {password}")
            ctx.log("info", f"with {password}")
            site_log.warning("signing in with %s", password)
            card = ctx.once("card", lambda: {"number": f"{SECRET}-card"})
            asked = ctx.elicit("account", f"Which account for {card['number']}?", Account)
            assert asked.content is not None
            return {"session": f"{password}/{card['number']}/{asked.content.account}"}

        @tool
        def echo(text: str) -> str:
            """Return the text."""
            return text

        @tool
        def report(text: str, ctx: ToolContext) -> str:
            """Report progress."""
            ctx.progress(1, message=text)
            return ""

        @tool
        def blame(text: str) -> str:
            """Fail with an error that quotes the text."""
            raise ToolError(f"Not {text}.")

        @tool
        def crash(text: str) -> str:
            """Fail with exceptions that quote the text."""
            try:
                raise KeyError(text)
            except KeyError as error:
                raise ValueError(f"no {text}") from error

        @tool
        def stop_itself(text: str, ctx: ToolContext) -> str:
            """Return a partial result after it has cancelled itself."""
            cancellation.cancel(ctx.request.id, cause=Cause.ADMIN, actor=SYSTEM)
            ctx.cancel()
            assert ctx.cancelled
            return text

        @tool
        def start(text: str, ctx: ToolContext) -> str:
            """Start another tool with the text."""
            started = ctx.start("echo", text=text)
            return started.tool

        yield


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadWorker]:
    _asked.clear()
    handler = ToolLogHandler("INFO")
    logging.getLogger().addHandler(handler)
    with ThreadWorker.at_work(monkeypatch) as worker:
        yield worker
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def redact(configure: Any) -> Callable[[Callable[..., Any]], None]:
    return lambda function: configure(REDACT=f"{__name__}.{function.__name__}")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """Captures log lines of all levels, including the site's own, which `said` leaves out."""
    monkeypatch.setattr(redaction, "_complaint", redaction._Complaint())
    caplog.set_level(logging.DEBUG)
    site_log.propagate = True
    return caplog


def said(log: pytest.LogCaptureFixture) -> str:
    """Return the formatted log without the site's own lines."""
    formatted = [log.handler.format(record) for record in log.records if record.name != site_log.name]
    return "\n".join(formatted)


def kept(request_id: Any) -> dict[str, Any]:
    """Return all columns of a request except the unredacted values."""
    return dict(Request.objects.filter(pk=request_id).values().get()) | {"unredacted": None}


async def result(name: str, **arguments: Any) -> dict[str, Any]:
    """Return the result of a call."""
    answered: dict[str, Any] = (await (await post(call(name, **arguments))).json())["result"]
    return answered


def only_row() -> Request:
    return Request.objects.get()


def let_go() -> bool:
    return not Request.objects.filter(unredacted__isnull=False).exists()


@pytest.mark.fault("G12")
def test_secrets_run_and_answer_a_call_and_are_nowhere_afterwards(redact: Any, worker: ThreadWorker, log: Any) -> None:
    redact(hide)
    password, account = f"{SECRET}-password", f"{SECRET}-account"

    async def scenario() -> None:
        meta = {META + "clientCapabilities": {"elicitation": {}}, "progressToken": "p", META + "logLevel": "info"}
        first = await post(call("sign_in", meta=meta, password=password), accept=STREAM)
        await first.head()
        *told, asked = await first.rest()
        assert len(told) == 3
        assert all("***" in str(notification) for notification in told)
        assert asked["result"]["inputRequests"]["account"]["params"]["message"] == f"Which account for {SECRET}-card?"

        stored = await in_thread(only_row)
        assert stored.status == Status.INPUT_REQUIRED
        assert stored.unredacted_value("arguments") == {"password": password}
        assert SECRET not in str(await in_thread(kept, stored.pk))
        assert stored.redacted == ["arguments", "kept", "questions"]

        body = call("sign_in", "again", meta=meta, password=password)
        answer = {"account": {"action": "accept", "content": {"account": account}}}
        body["params"] |= {"inputResponses": answer, "requestState": asked["result"]["requestState"]}
        second = await post(body, accept=STREAM)
        await second.head()
        answered = (await second.rest())[-1]["result"]
        assert answered["structuredContent"] == {"session": f"{password}/{SECRET}-card/{account}"}
        await eventually(let_go)

    run(scenario())
    assert left_behind.find_in_rows(SECRET) == set()
    assert left_behind.find_in_broker(SECRET) == set()
    assert SECRET not in said(log) + str(worker.messages)
    ended = only_row()
    assert (ended.status, ended.arguments, ended.result["structuredContent"]) == (
        *(Status.COMPLETED, {"password": "***"}, {"session": "***"}),
    )
    assert len(worker.messages) == 2
    assert {kind for kind, _ in _asked} == {
        *("arguments", "progress", "log", "kept", "question", "answer", "result"),
    }
    assert {name for _, name in _asked} == {"sign_in"}


@pytest.mark.fault("G12")
@pytest.mark.parametrize("name", ["blame", "crash", "stop_itself", "echo"])
def test_however_a_call_ends_it_leaves_no_secret(redact: Any, worker: ThreadWorker, log: Any, name: str) -> None:
    redact(hide)

    async def scenario() -> None:
        answered = await result(name, text=SECRET)
        assert (SECRET in str(answered)) == (name in ("blame", "echo"))
        await eventually(let_go)

    run(scenario())
    ended = only_row()
    assert ended.status in (Status.COMPLETED if name == "echo" else Status.FAILED, Status.CANCELLED)
    assert "***" in str([ended.error, ended.result, ended.partial_result])
    assert left_behind.find_in_rows(SECRET) == set()
    assert SECRET not in said(log)


def test_what_a_tool_hands_to_another_is_redacted_as_well(redact: Any, worker: ThreadWorker, log: Any) -> None:
    redact(hide)

    async def scenario() -> None:
        await result("start", text=SECRET)
        await eventually(lambda: Request.objects.filter(status__in=(Status.COMPLETED, Status.CANCELLED)).count() == 2)

    run(scenario())
    assert [child.arguments for child in Request.objects.filter(tool="echo")] == [{"text": "***"}]
    assert SECRET not in said(log)


@pytest.mark.fault("G12")
def test_a_redaction_is_asked_about_arguments_that_were_read_from_json_text(
    redact: Any, worker: ThreadWorker, log: Any
) -> None:
    redact(hide_number)

    @tool
    def pay(card: dict[str, str]) -> int:
        """Take some money."""
        return len(card["number"])

    @tool
    def hand_on(card: dict[str, str], ctx: ToolContext) -> str:
        """Start another tool with the card."""
        return ctx.start("pay", card=json.dumps(card)).tool

    async def scenario() -> None:
        card = json.dumps({"number": SECRET, "name": "Ann"})
        assert (await result("pay", card=card))["structuredContent"] == len(SECRET)
        await result("hand_on", card=card)
        await eventually(lambda: not Request.objects.filter(finished_at=None).exists() and let_go())

    run(scenario())
    rows = Request.objects.all()
    assert sorted(row.tool for row in rows) == ["hand_on", "pay", "pay"]
    assert all(row.arguments == {"card": {"number": "***", "name": "Ann"}} for row in rows)
    assert left_behind.find_in_rows(SECRET) == set()
    assert SECRET not in said(log)


@pytest.mark.fault("G12")
@pytest.mark.parametrize("function", [fail, forget_to_return, return_no_json, return_no_number])
@pytest.mark.parametrize("name", ["echo", "report", "crash"])
def test_a_redaction_that_fails_loses_no_call_and_stores_a_marker(
    redact: Any, worker: ThreadWorker, log: Any, function: Any, name: str
) -> None:
    redact(function)

    async def scenario() -> None:
        answered = await result(name, text=SECRET)
        assert (SECRET in str(answered)) == (name == "echo")
        await eventually(let_go)

    run(scenario())
    ended = only_row()
    assert ended.arguments == {"redacted": MARKER}
    assert left_behind.find_in_rows(SECRET) == set()
    assert SECRET not in said(log)
    [complaint, *_] = [record for record in log.records if record.name.endswith("redaction")]
    assert f"{__name__}.{function.__name__}" in complaint.getMessage()


@pytest.mark.fault("G12")
def test_a_redaction_that_is_not_there_stores_a_marker(configure: Any, worker: ThreadWorker, log: Any) -> None:
    configure(REDACT="tests.nowhere.hide")

    async def scenario() -> None:
        assert (await result("echo", text=SECRET))["content"][0]["text"] == SECRET
        await eventually(let_go)

    run(scenario())
    assert left_behind.find_in_rows(SECRET) == set()
    assert "ModuleNotFoundError" in said(log)


def test_a_redaction_may_log(redact: Any, worker: ThreadWorker) -> None:
    redact(say)

    async def scenario() -> None:
        await result("report", text="half")

    run(scenario())
    told = [data for kind, data in story(only_row()) if kind in ("progress", "log")]
    assert told == [{"progress": 1, "message": "half"}]


def test_without_a_redaction_everything_is_kept_and_nothing_twice(worker: ThreadWorker) -> None:
    async def scenario() -> None:
        await result("echo", text=SECRET)

    run(scenario())
    ended = only_row()
    assert (ended.arguments, ended.unredacted, ended.redacted) == ({"text": SECRET}, None, [])
    assert SECRET in str(ended.result)


def test_a_task_is_told_its_result_until_it_expires(redact: Any, worker: ThreadWorker, configure: Any) -> None:
    redact(hide)
    meta = {META + "clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    with isolated_registries():

        @tool(task="always")
        def slow(text: str) -> str:
            """Return the text, as a task."""
            return text

        async def scenario() -> None:
            task_id = (await (await post(call("slow", meta=meta, text=SECRET))).json())["result"]["taskId"]
            await eventually(lambda: only_row().status == Status.COMPLETED)
            for _ in range(2):
                body = message("tasks/get", taskId=task_id, meta=meta)
                told = (await (await post(body, headers={"Mcp-Name": task_id})).json())["result"]
                assert told["result"]["content"][0]["text"] == SECRET

        run(scenario())
    assert "***" in str(only_row().result)
