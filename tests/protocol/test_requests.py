from typing import Any

import pytest

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.requests import (
    CallTool,
    Complete,
    GetPrompt,
    Listen,
    ListRequest,
    ReadResource,
    read_call_tool,
    read_complete,
    read_get_prompt,
    read_list_page,
    read_listen,
    read_read_resource,
)
from tests.protocol.posts import ABSENT, route


def check_invalid(outcome: object) -> None:
    """Check for a status of 200, because clients of both eras fall back to `initialize` on a 400."""
    assert isinstance(outcome, Rejection)
    assert (outcome.code, outcome.status, outcome.request_id) == (-32602, 200, 7)


@pytest.mark.parametrize(
    ("params", "cursor"), [({}, None), ({"cursor": None}, None), ({"cursor": ""}, ""), ({"cursor": "abc"}, "abc")]
)
def test_a_cursor_is_optional_and_may_be_empty(params: dict[str, Any], cursor: str | None) -> None:
    assert read_list_page(route("tools/list", params)) == ListRequest(cursor)


@pytest.mark.parametrize("cursor", [5, ["a"], False])
def test_a_cursor_of_another_type_is_invalid(cursor: Any) -> None:
    check_invalid(read_list_page(route("tools/list", {"cursor": cursor})))


@pytest.mark.parametrize("params", [{}, {"arguments": None, "inputResponses": None, "requestState": None}])
def test_arguments_and_answers_may_be_absent_or_null(params: dict[str, Any]) -> None:
    assert read_call_tool(route("tools/call", {"name": "echo", **params})) == CallTool("echo", {})


def test_arguments_keep_their_nulls() -> None:
    found = read_call_tool(route("tools/call", {"name": "echo", "arguments": {"a": None}}))
    assert found == CallTool("echo", {"a": None})


@pytest.mark.parametrize("params", [{}, {"name": 5}, {"name": None}])
def test_a_call_without_a_name_is_invalid(params: dict[str, Any]) -> None:
    check_invalid(read_call_tool(route("tools/call", params)))


@pytest.mark.parametrize("arguments", [[], "", "x", 0, False, True])
def test_arguments_that_are_no_object_are_invalid(arguments: Any) -> None:
    check_invalid(read_call_tool(route("tools/call", {"name": "echo", "arguments": arguments})))


def test_a_filter_keeps_what_was_chosen_and_ignores_what_is_unknown() -> None:
    chosen = {"toolsListChanged": True, "promptsListChanged": False, "resourceSubscriptions": ["a:b"], "own": 5}
    assert read_listen(route("subscriptions/listen", {"notifications": chosen})) == Listen(
        tools_list_changed=True,
        prompts_list_changed=False,
        resources_list_changed=False,
        resource_subscriptions=("a:b",),
    )


@pytest.mark.parametrize("chosen", [{}, {"tools_list_changed": True}])
def test_a_filter_without_a_known_wire_name_chooses_nothing(chosen: dict[str, Any]) -> None:
    found = read_listen(route("subscriptions/listen", {"notifications": chosen}))
    assert found == Listen(False, False, False, ())


@pytest.mark.parametrize("chosen", [ABSENT, None, [], True, {"toolsListChanged": "yes"}, {"toolsListChanged": 1}])
def test_a_filter_of_another_type_is_invalid(chosen: Any) -> None:
    params = {} if chosen is ABSENT else {"notifications": chosen}
    check_invalid(read_listen(route("subscriptions/listen", params)))


@pytest.mark.parametrize("uris", ["a:b", [1], {"a": 1}])
def test_resource_uris_of_another_type_are_invalid(uris: Any) -> None:
    chosen = {"notifications": {"resourceSubscriptions": uris}}
    check_invalid(read_listen(route("subscriptions/listen", chosen)))


def test_a_resource_is_named_by_a_uri() -> None:
    assert read_read_resource(route("resources/read", {"uri": "x://a"})) == ReadResource("x://a")


@pytest.mark.parametrize("params", [{}, {"uri": 1}, {"uri": "no uri"}, {"uri": "x://" + "a" * 10_000}])
def test_what_is_no_uri_names_no_resource(params: dict[str, Any]) -> None:
    check_invalid(read_read_resource(route("resources/read", params)))


def test_a_prompts_arguments_are_strings_and_may_be_absent_or_null() -> None:
    assert read_get_prompt(route("prompts/get", {"name": "p"})) == GetPrompt("p", {})
    assert read_get_prompt(route("prompts/get", {"name": "p", "arguments": None})) == GetPrompt("p", {})
    given = route("prompts/get", {"name": "p", "arguments": {"a": ""}})
    assert read_get_prompt(given) == GetPrompt("p", {"a": ""})


@pytest.mark.parametrize(
    "params", [{}, {"name": 1}, *({"name": "p", "arguments": a} for a in ([], "", {"a": 1}, {"a": None}))]
)
def test_a_malformed_prompt_request_is_invalid(params: dict[str, Any]) -> None:
    check_invalid(read_get_prompt(route("prompts/get", params)))


PROMPT = {"type": "ref/prompt", "name": "p"}
TYPED = {"name": "a", "value": "v"}


def test_a_completion_is_of_a_prompt_or_of_a_template() -> None:
    of_prompt = {"ref": PROMPT, "argument": TYPED, "context": {"arguments": {"b": "c"}}}
    assert read_complete(route("completion/complete", of_prompt)) == Complete(True, "p", "a", "v", {"b": "c"})
    without = Complete(True, "p", "a", "v", {})
    for context in (None, {}, {"arguments": None}):
        assert read_complete(route("completion/complete", of_prompt | {"context": context})) == without
    of_template = {"ref": {"type": "ref/resource", "uri": "x://{a}"}, "argument": TYPED}
    assert read_complete(route("completion/complete", of_template)) == Complete(False, "x://{a}", "a", "v", {})


@pytest.mark.parametrize(
    "params",
    [
        {"argument": TYPED},
        {"ref": "p", "argument": TYPED},
        {"ref": {"type": "ref/tool", "name": "p"}, "argument": TYPED},
        {"ref": {"type": ["ref/prompt"], "name": "p"}, "argument": TYPED},
        {"ref": {"type": "ref/prompt", "uri": "p"}, "argument": TYPED},
        {"ref": PROMPT},
        {"ref": PROMPT, "argument": {"name": "a"}},
        {"ref": PROMPT, "argument": {"name": "a", "value": 1}},
        {"ref": PROMPT, "argument": TYPED, "context": []},
        {"ref": PROMPT, "argument": TYPED, "context": {"arguments": {"b": 1}}},
    ],
)
def test_a_malformed_completion_request_is_invalid(params: dict[str, Any]) -> None:
    check_invalid(read_complete(route("completion/complete", params)))


@pytest.mark.fault("G10")
def test_a_filter_of_very_many_that_are_none_is_not_held_against_its_type() -> None:
    chosen = {"notifications": {"resourceSubscriptions": [0] * 50_000}}
    check_invalid(read_listen(route("subscriptions/listen", chosen)))
