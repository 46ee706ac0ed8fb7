"""The error, the log and the row after an author's code failed. The worker is real, in a thread."""

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
INTERNAL = "failed because of an internal error. The server's log has the details."


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
    assert text_of("dig") == f"The tool {INTERNAL}"
    row = Request.objects.get()
    assert row.error == {"cause": "tool", "type": "KeyError", "message": f"'{SECRET}'"}


def test_under_debug_a_tools_failure_has_its_type_and_text_and_the_row_the_traceback(
    worker: ThreadWorker, settings: Any
) -> None:
    settings.DEBUG = True
    declare_dig()
    assert text_of("dig") == f"The tool {INTERNAL} Shown because DEBUG is on: KeyError: '{SECRET}'"
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
        details = f" Shown because DEBUG is on: KeyError: '{SECRET}'" if debug else ""
        assert error == {"code": -32603, "message": f"The request {INTERNAL}{details}"}
    configure(REDACT=f"{__name__}.hide")
    assert SECRET not in str(answer_to(message("prompts/get", name="greet")))


RAN = (
    "The {} ran, but its result cannot be sent: {}. Calling again with the same arguments is not likely to help, "
    "and what it did may have taken effect. The server's log has the details."
)


def circular() -> list[Any]:
    value: list[Any] = []
    value.append({"me": value})
    return value


UNSENDABLE: list[tuple[Any, str]] = [
    ({"rows": [{"price": 1.5}, {"price": float("nan")}]}, "the float at $.rows[1].price cannot be written as JSON: "),
    (float("-inf"), "the float cannot be written as JSON: "),
    (b"hush-4711", "bytes have no MIME type; return Image, Audio or an embedded resource"),
    ({"a": b"\xff"}, "the bytes at $.a cannot be written as JSON: "),
    (circular(), "the dict at $[0] cannot be written as JSON: Circular reference"),
    ([{"n": 10**5_000}], "the int at $[0].n cannot be written as JSON: "),
    ({"names": ["a", {"\ud800": 1}]}, "the dict at $.names[1] cannot be written as JSON: "),
    ((1, {"file": object()}), "the object at $[1].file cannot be written as JSON: "),
    (mcp_types.TextContent(text="a", _meta={"com.example/a": object()}), "a TextContent cannot be written as JSON: "),
]


@pytest.mark.fault("I10")
@pytest.mark.parametrize(("value", "problem"), UNSENDABLE, ids=lambda value: value if isinstance(value, str) else "")
def test_a_result_that_cannot_be_sent_is_explained_to_the_client_the_log_and_the_row(
    worker: ThreadWorker, caplog: pytest.LogCaptureFixture, value: Any, problem: str
) -> None:
    @tool
    def dig():  # type: ignore[no-untyped-def]
        return value

    told = text_of("dig")
    assert told == RAN.format("tool", "it contains a value that JSON cannot represent (such as NaN, infinity or bytes)")
    row = Request.objects.get()
    assert (row.status, row.error["type"]) == (Status.FAILED, "InvalidResult")
    assert row.error["message"].startswith(problem)
    assert f"tool dig in request {row.pk} returned a result that cannot be sent: {problem}" in caplog.text


@pytest.mark.fault("I10")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"a": [1, SECRET]}, "it does not match its annotation: $.a[1]: Input should be a valid integer"),
        (5, "it does not match its annotation: $: Input should be a valid dictionary, not int"),
        (mcp_types.CallToolResult(content=[]), "it has no structured content, which the output schema requires"),
    ],
    ids=["a part", "the whole", "ready-made"],
)
def test_a_result_that_is_not_what_was_declared_is_explained_without_its_values(
    worker: ThreadWorker, caplog: pytest.LogCaptureFixture, value: Any, problem: str
) -> None:
    @tool
    def dig() -> dict[str, list[int]]:
        return value  # type: ignore[no-any-return]

    assert text_of("dig") == RAN.format("tool", "it does not match the type that the tool declares")
    row = Request.objects.get()
    assert row.error["message"].startswith(problem)
    [logged] = [record.getMessage() for record in caplog.records if record.name.startswith("mcp_app.execution")]
    assert problem in logged
    assert SECRET not in f"{row.error} {logged}"


@pytest.mark.fault("I10")
def test_a_block_that_is_malformed_is_explained_and_under_debug_with_its_details(
    worker: ThreadWorker, settings: Any
) -> None:
    @tool
    def dig() -> Image:
        return Image(b"x", "no type")

    assert text_of("dig") == RAN.format("tool", "it is malformed")
    settings.DEBUG = True
    details = "InvalidResult: a MIME type looks like image/png, not 'no type'"
    assert text_of("dig") == f"{RAN.format('tool', 'it is malformed')} Shown because DEBUG is on: {details}"


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
    for body, told in (
        (greeting, "it is malformed"),
        (completing, "it is malformed"),
        (reading, "it contains a value"),
    ):
        error = answer_to(body)["error"]
        assert error["code"] == -32603
        assert error["message"].startswith(f"The request ran, but its result cannot be sent: {told}")
    assert "prompts/get: 'greet' returned a result that cannot be sent: a int is not a message" in caplog.text
    assert "completion/complete: " in caplog.text
    assert "returned a result that cannot be sent: a completion must be a list of strings" in caplog.text
    assert (
        "resources/read: 'note://a' returned a result that cannot be sent: the float at "
        "$.rows[0] cannot be" in caplog.text
    )
    for completed in ("Ann", None, 5):
        answer_to(completing)
        assert f"a completion must be a list of strings, not a {type(completed).__name__}" in caplog.text
    assert SECRET not in caplog.text
    caplog.clear()
    configure(REDACT=f"{__name__}.hide")
    answer_to(reading)
    assert "resources/read: (withheld) returned a result that cannot be sent: InvalidResult" in caplog.text
