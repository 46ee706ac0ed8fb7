"""One request, one answer: a server process for each."""

from typing import Any

from tests.transport.client import ask, run


def answer(method: str, **params: Any) -> dict[str, Any]:
    """The JSON-RPC response."""
    answers: list[dict[str, Any]] = []

    async def scenario() -> None:
        answers.append(await ask(method, **params))

    run(scenario())
    return answers[0]


def result_of(method: str, **params: Any) -> Any:
    return answer(method, **params)["result"]


def error_of(method: str, **params: Any) -> Any:
    return answer(method, **params)["error"]
