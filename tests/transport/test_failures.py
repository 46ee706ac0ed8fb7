"""The error, the log and the row after an author's code failed. The worker is real, in a thread."""

import re
from collections.abc import Iterator
from typing import Any

import mcp_types
import pytest

from mcp_app.catalogue.content.blocks import Image
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.prompts import prompt
from mcp_app.catalogue.registry import tool
from mcp_app.catalogue.resources import resource
from mcp_app.models import Request
from mcp_app.states import Status
from tests.support.asgi_client import call, message, post, run
from tests.support.thread_worker import ThreadWorker

pytestmark = pytest.mark.usefixtures("_tools")


SECRET = "hush-4711"
INTERNAL = "internal error"
DETAILS = ("DEBUG", "KeyError", SECRET)
"""Parts of a message that only `DEBUG` may add."""


def hide(kind: str, tool_name: str, value: Any) -> Any:
    return value.replace(SECRET, "***") if isinstance(value, str) else value


@pytest.fixture
def _tools() -> Iterator[None]:
    with isolated_registries():
        yield


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadWorker]:
    with ThreadWorker.at_work(monkeypatch) as worker:
        yield worker


def answer_to(body: Any) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []

    async def scenario() -> None:
        answers.append(await (await post(body)).json())

    run(scenario())
    return answers[0]


def text_of(name: str) -> str:
    """Return the error text of a call that fails."""
    result = answer_to(call(name))["result"]
    assert result["isError"] is True
    return str(result["content"][0]["text"])


def declare_dig() -> None:
    @tool
    def dig() -> None:
        """Fail."""
        raise KeyError(SECRET)


def test_without_debug_a_tools_failure_has_no_details(worker: ThreadWorker) -> None:
    declare_dig()
    told = text_of("dig")
    assert all(fact in told for fact in ("tool", INTERNAL, "log"))
    assert not any(detail in told for detail in DETAILS)
    row = Request.objects.get()
    assert row.error == {"cause": "tool", "type": "KeyError", "message": f"'{SECRET}'"}


def test_under_debug_a_tools_failure_has_its_type_and_text_and_the_row_the_traceback(
    worker: ThreadWorker, settings: Any
) -> None:
    settings.DEBUG = True
    declare_dig()
    told = text_of("dig")
    assert all(fact in told for fact in ("tool", INTERNAL, "log", "DEBUG"))
    assert told.endswith(f"KeyError: '{SECRET}'")
    row = Request.objects.get()
    assert (row.status, row.error["type"]) == (Status.FAILED, "KeyError")
    assert "in dig\n    raise KeyError(SECRET)" in row.error["traceback"]
    assert row.error["traceback"].endswith(f"KeyError: '{SECRET}'\n")


def test_under_debug_a_sites_redaction_is_asked_as_well(
    worker: ThreadWorker, settings: Any, configure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DEBUG = True
    configure(REDACT=f"{__name__}.hide")
    declare_dig()
    assert text_of("dig").endswith("KeyError: '***'")
    row = Request.objects.get()
    assert "raise KeyError(SECRET)" in row.error["traceback"]
    assert SECRET not in f"{row.error} {row.result} {caplog.text}"


@pytest.mark.parametrize("debug", [False, True])
def test_the_failure_of_a_prompt_and_of_a_resource_has_details_under_debug_alone(
    settings: Any, configure: Any, debug: bool
) -> None:
    settings.DEBUG = debug

    @prompt
    def greet() -> str:
        raise KeyError(SECRET)

    @resource("note://a")
    def note() -> str:
        raise KeyError(SECRET)

    for body in (message("prompts/get", name="greet"), message("resources/read", uri="note://a")):
        error = answer_to(body)["error"]
        told = error.pop("message")
        assert error == {"code": -32603}
        assert all(fact in told for fact in ("request", INTERNAL, "log"))
        assert [detail in told for detail in DETAILS] == [debug] * len(DETAILS)
        assert told.endswith(f"KeyError: '{SECRET}'") == debug
    configure(REDACT=f"{__name__}.hide")
    assert SECRET not in str(answer_to(message("prompts/get", name="greet")))


RAN = (" ran", "cannot be sent", "again", "not likely", "effect", "log")
"""Facts that a client must know if only the result cannot be sent."""


def circular() -> list[Any]:
    value: list[Any] = []
    value.append({"me": value})
    return value


UNSENDABLE: list[tuple[Any, str]] = [
    ({"rows": [{"price": 1.5}, {"price": float("nan")}]}, "float $.rows[1].price JSON"),
    (float("-inf"), "float JSON"),
    (b"hush-4711", "bytes MIME Image Audio"),
    ({"a": b"\xff"}, "bytes $.a JSON"),
    (circular(), "dict $[0] JSON Circular reference"),
    ([{"n": 10**5_000}], "int $[0].n JSON"),
    ({"names": ["a", {"\ud800": 1}]}, "dict $.names[1] JSON"),
    ((1, {"file": object()}), "object $[1].file JSON"),
    (mcp_types.TextContent(text="a", _meta={"com.example/a": object()}), "TextContent JSON"),
]
"""Values, and the words that their error in the log and in the row must contain."""


@pytest.mark.fault("I10")
@pytest.mark.parametrize(("value", "problem"), UNSENDABLE, ids=lambda value: value if isinstance(value, str) else "")
def test_a_result_that_cannot_be_sent_is_explained_to_the_client_the_log_and_the_row(
    worker: ThreadWorker, caplog: pytest.LogCaptureFixture, value: Any, problem: str
) -> None:
    @tool
    def dig():  # type: ignore[no-untyped-def]
        return value

    told = text_of("dig")
    assert all(fact in told for fact in ("tool", "JSON", *RAN))
    assert "$" not in told
    row = Request.objects.get()
    assert (row.status, row.error["type"]) == (Status.FAILED, "InvalidResult")
    error = row.error["message"]
    assert set(problem.split()) <= set(re.split(r"[\s:;,]+", error))
    assert ("$" in error) == ("$" in problem)
    [logged] = [record.getMessage() for record in caplog.records if record.name.startswith("mcp_app.execution")]
    assert all(fact in logged for fact in ("dig", str(row.pk), error))


@pytest.mark.fault("I10")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"a": [1, SECRET]}, ("annotation", "$.a[1]: Input should be a valid integer")),
        (5, ("annotation", "$: Input should be a valid dictionary", "not int")),
        (mcp_types.CallToolResult(content=[]), ("structured content", "output schema")),
    ],
    ids=["a part", "the whole", "ready-made"],
)
def test_a_result_that_is_not_what_was_declared_is_explained_without_its_values(
    worker: ThreadWorker, caplog: pytest.LogCaptureFixture, value: Any, problem: tuple[str, ...]
) -> None:
    @tool
    def dig() -> dict[str, list[int]]:
        return value  # type: ignore[no-any-return]

    told = text_of("dig")
    assert all(fact in told for fact in ("tool", "declares", *RAN))
    row = Request.objects.get()
    [logged] = [record.getMessage() for record in caplog.records if record.name.startswith("mcp_app.execution")]
    assert all(fact in text for fact in problem for text in (row.error["message"], logged))
    assert SECRET not in f"{row.error} {logged} {told}"


@pytest.mark.fault("I10")
def test_a_block_that_is_malformed_is_explained_and_under_debug_with_its_details(
    worker: ThreadWorker, settings: Any
) -> None:
    @tool
    def dig() -> Image:
        return Image(b"x", "no type")

    details = ("DEBUG", "InvalidResult", "image/png", "'no type'")
    for debug in (False, True):
        settings.DEBUG = debug
        told = text_of("dig")
        assert all(fact in told for fact in ("tool", "malformed", *RAN))
        assert [detail in told for detail in details] == [debug] * len(details)


@pytest.mark.fault("I10")
def test_what_prompts_resources_and_completions_return_is_explained_as_well(
    configure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    completed: Any = [SECRET, 5]

    @prompt(completions={"name": lambda value, context: completed})
    def greet(name: str) -> Any:
        return 5

    @resource("note://a")
    def note() -> Any:
        return {"rows": [float("nan")]}

    greeting = message("prompts/get", name="greet", arguments={"name": "Ann"})
    ref, argument = {"type": "ref/prompt", "name": "greet"}, {"name": "name", "value": ""}
    completing = message("completion/complete", ref=ref, argument=argument)
    reading = message("resources/read", uri="note://a")
    for body, told, logged in (
        (greeting, "malformed", ("prompts/get", "'greet'", " int ", "not a message")),
        (completing, "malformed", ("completion/complete", "list of strings")),
        (reading, "JSON", ("resources/read", "'note://a'", "float", "$.rows[0]")),
    ):
        caplog.clear()
        error = answer_to(body)["error"]
        assert error["code"] == -32603
        assert all(fact in error["message"] for fact in ("request", told, *RAN))
        assert all(fact in caplog.text for fact in logged)
        assert SECRET not in caplog.text
    for completed in ("Ann", None, 5):
        caplog.clear()
        answer_to(completing)
        assert re.search(rf"list of strings, not .*\b{type(completed).__name__}\b", caplog.text)
    caplog.clear()
    configure(REDACT=f"{__name__}.hide")
    answer_to(reading)
    assert all(fact in caplog.text for fact in ("resources/read", "(withheld)", "InvalidResult"))
    assert "note://a" not in caplog.text
