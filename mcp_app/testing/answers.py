"""Answer a tool's questions with the answers that a test prepared, once each and in order.

A question without a prepared answer fails the test.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from mcp_app.catalogue.input.questions import ELICIT

Action = Literal["accept", "decline", "cancel"]
Content = Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any] | None] | None


class UnansweredError(AssertionError):
    """A call asked a question that the test has not prepared an answer for.

    The message names the question.
    """


class Answers:
    """Prepared answers, by the key or the message of their question."""

    def __init__(self) -> None:
        self._prepared: dict[str, list[tuple[Content, Action]]] = {}

    def prepare(self, question: str, content: Content, action: Action) -> None:
        self._prepared.setdefault(question, []).append((content, action))

    def respond(self, questions: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return an InputResponses object for an InputRequests object. Raises UnansweredError."""
        return {key: self._answer(key, request) for key, request in questions.items()}

    def _answer(self, key: str, request: Mapping[str, Any]) -> Any:
        params = dict(request.get("params") or {})
        content, action = self._take(key, params.get("message"))
        if callable(content):
            content = content(params)
        if request["method"] != ELICIT:
            return content
        return {"action": action} if content is None else {"action": action, "content": dict(content)}

    def _take(self, key: str, message: str | None) -> tuple[Content, Action]:
        for question in (key, message):
            if question is not None and (waiting := self._prepared.get(question)):
                return waiting.pop(0)
        asked = key if message is None else f"{key}: {message}"
        raise UnansweredError(
            f"The call asks ({asked}), and no prepared answer is left: call mcp_client.answer({key!r}, {{…}}) first."
        )
