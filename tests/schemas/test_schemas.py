"""The strict schemas, and the checks of responses against them, find errors."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.schemas import schemas
from tests.schemas.judge import Received, Sent, judge
from tests.schemas.offered import SAMPLES
from tests.schemas.schemas import MODERN, REVISIONS
from tests.schemas.steps import META

WHO = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}
LIST = {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": WHO}
TASK = {
    "taskId": "t",
    "status": "working",
    "createdAt": "2026-01-02T03:04:05Z",
    "lastUpdatedAt": "2026-01-02T03:04:05.678Z",
    "ttlMs": None,
    "resultType": "complete",
    "_meta": WHO,
}


def takes(method: str, revision: str, result: Any) -> bool:
    return schemas.validator(tuple(schemas.results(method, revision)), revision).is_valid(result)


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_schemas_are_schemas(revision: str) -> None:
    Draft202012Validator.check_schema({"$defs": schemas.definitions(revision)})


def test_what_a_revision_does_not_know_is_refused() -> None:
    tool: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object", "additionalProperties": False}}
    for member, value, since in (
        ("title", "T", "2025-06-18"),
        ("outputSchema", {"type": "object"}, "2025-06-18"),
        ("_meta", {"a": 1}, "2025-06-18"),
        ("icons", [{"src": "https://example.com/i"}], "2025-11-25"),
    ):
        known = [
            revision
            for revision in REVISIONS[:-1]
            if takes("tools/list", revision, {"tools": [{**tool, member: value}]})
        ]
        assert known == [revision for revision in REVISIONS[:-1] if revision >= since], member
    link = {"content": [{"type": "resource_link", "uri": "a:b", "name": "n"}]}
    assert not takes("tools/call", "2025-03-26", link)
    assert takes("tools/call", "2025-06-18", link)


@pytest.mark.parametrize(
    "change", [{"nextCursor": None}, {"ttlMs": "0"}, {"cacheScope": "shared"}, {"resultType": None}, {"extra": 1}]
)
def test_nulls_and_strangers_are_refused(change: dict[str, Any]) -> None:
    assert takes("tools/list", MODERN, LIST)
    assert not takes("tools/list", MODERN, {**LIST, **change})


def test_an_empty_result_of_a_legacy_revision_is_empty() -> None:
    assert takes("ping", "2025-11-25", {})
    assert not takes("ping", "2025-11-25", {"resultType": "complete"})
    assert not schemas.results("ping", MODERN)


@pytest.mark.parametrize(
    "change", [{"status": "done"}, {"result": {}}, {"status": "failed"}, {"ttlMs": 1.5}, {"createdAt": "now"}]
)
def test_a_task_is_as_its_status_says(change: dict[str, Any]) -> None:
    assert takes("tasks/get", MODERN, TASK)
    assert not takes("tasks/get", MODERN, {**TASK, **change})


ASKED = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {META + "protocolVersion": MODERN}}}
ANSWER = {"jsonrpc": "2.0", "id": 1, "result": LIST}


def error(code: int, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}, **members}


@pytest.mark.parametrize(
    ("status", "messages"),
    [
        (200, [ANSWER, ANSWER]),
        (200, []),
        (202, []),
        (500, [error(-32603)]),
        (200, [error(-32603)]),
        (200, [error(-32601)]),
        (400, [error(-32002)]),
        (404, [{"jsonrpc": "2.0", "error": {"code": 404, "message": "no"}}]),
        (200, [{**ANSWER, "id": "1"}]),
        (200, [{**ANSWER, "extra": 1}]),
        (200, [ANSWER, {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]),
        (200, [{"jsonrpc": "2.0", "id": 9, "method": "ping"}, ANSWER]),
        (
            200,
            [
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
                ANSWER,
            ],
        ),
    ],
)
def test_a_wrong_exchange_is_found_out(status: int, messages: list[Any]) -> None:
    sent = Sent(b"", ASKED)
    judge(sent, Received(200, messages=[ANSWER], is_stream=True), SAMPLES)
    with pytest.raises(AssertionError):
        judge(sent, Received(status, messages=messages, is_stream=len(messages) > 1), SAMPLES)
