"""One request and its response, in a server process for each."""

import json
from typing import Any

from mcp_types.methods import validate_server_result

from mcp_app.protocol.metadata import SERVER_INFO
from mcp_app.protocol.revisions import MODERN
from tests.support.asgi_client import Connection, ask, post, run


def answer(method: str, **params: Any) -> dict[str, Any]:
    """Return the JSON-RPC response."""
    answers: list[dict[str, Any]] = []

    async def scenario() -> None:
        answers.append(await ask(method, **params))

    run(scenario())
    return answers[0]


def result_of(method: str, **params: Any) -> Any:
    """Return the result.

    Check that the revision's own types accept it, and that it names its server.
    """
    result = answer(method, **params)["result"]
    validate_server_result(method, MODERN, result)
    assert result["resultType"] == "complete"
    assert SERVER_INFO in result["_meta"]
    return result


def error_of(method: str, **params: Any) -> Any:
    return answer(method, **params)["error"]


async def exchange(body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """Return the status and the body as JSON, or `None` for an empty body.

    `headers` are as for `post`.
    """
    return await read_whole(await post(body, headers=headers))


async def read_whole(connection: Connection) -> tuple[int, Any]:
    await connection.head()
    body = await connection.body()
    return connection.status, json.loads(body) if body else None


async def rejected_with(body: Any, headers: dict[str, str] | None = None) -> tuple[int, int]:
    """Return the status and the code of an error, and check that it names its request."""
    status, answer = await exchange(body, headers)
    assert answer["id"] == body["id"], answer
    return status, answer["error"]["code"]
