"""Questions to a client of an older revision have no feature that is newer than it."""

from typing import Any

import mcp_types
import pytest
from mcp_types import ClientCapabilities

from mcp_app.protocol.headers import Accept
from mcp_app.protocol.legacy import questions
from mcp_app.protocol.revisions import LEGACY

OLD, MIDDLE, LATEST = LEGACY.values()
STREAM, JSON_ONLY = Accept(json=True, event_stream=True), Accept(json=True, event_stream=False)
FIELDS: dict[str, Any] = {
    "name": {"type": "string", "title": "Name", "maxLength": 9, "default": "Ada"},
    "age": {"type": "integer", "minimum": 1, "default": 30},
    "sure": {"type": "boolean", "default": True},
    "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"], "default": "s"},
    "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]},
}
SEVERAL = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}


def form(**fields: Any) -> dict[str, Any]:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": fields}
    params = {"mode": "form", "message": "Please", "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def page() -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"mode": "url", "message": "Go", "url": "https://example.com"}}


def sample(*contents: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "user", "content": list(contents) if len(contents) > 1 else contents[0], "_meta": {"a": 1}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 5, "temperature": 0.5}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said, "annotations": {"priority": 1.0, "lastModified": "2025-01-01T00:00:00Z"}}


def asked(revision: Any, request: dict[str, Any]) -> Any:
    assert questions.find_obstacle(revision, request) is None
    message = questions.question_request(revision, "r.1", request, "an elicitation")
    assert (message["jsonrpc"], message["id"], message["method"]) == ("2.0", "r.1", request["method"])
    return message["params"]


def test_a_form_of_the_first_kind_has_no_mode_one_default_and_titles_beside_its_choices() -> None:
    params = asked(MIDDLE, form(**FIELDS))
    assert params == {
        "message": "Please",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Name", "maxLength": 9},
                "age": {"type": "integer", "minimum": 1},
                "sure": {"type": "boolean", "default": True},
                "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
                "colour": {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]},
            },
        },
    }


def test_what_is_required_stays_required() -> None:
    request = form(**FIELDS)
    request["params"]["requestedSchema"]["required"] = ["name"]
    assert asked(MIDDLE, request)["requestedSchema"]["required"] == ["name"]


def test_the_latest_forms_are_the_modern_ones() -> None:
    request = form(**FIELDS, several=SEVERAL)
    assert asked(LATEST, request) == request["params"]
    mcp_types.ElicitRequestFormParams.model_validate(asked(LATEST, request), by_name=False)


def test_an_address_has_an_id_in_the_revision_that_knows_addresses() -> None:
    assert asked(LATEST, page()) == {**page()["params"], "elicitationId": "an elicitation"}
    told = questions.elicitation_complete("an elicitation")
    assert told["method"] == "notifications/elicitation/complete"
    assert told["params"] == {"elicitationId": "an elicitation"}


def test_a_sample_has_one_content_in_a_message_before_the_latest_revision() -> None:
    request = sample(text("a"), text("b"))
    assert asked(LATEST, request) == request["params"]
    for revision, dated in ((MIDDLE, True), (OLD, False)):
        params = asked(revision, request)
        assert [message.keys() for message in params["messages"]] == [{"role", "content"}] * 2
        assert [message["content"]["text"] for message in params["messages"]] == ["a", "b"]
        assert ("lastModified" in params["messages"][0]["content"]["annotations"]) == dated
        assert (params["maxTokens"], params["temperature"]) == (5, 0.5)


def test_roots_are_asked_for_without_params() -> None:
    for revision in LEGACY.values():
        assert asked(revision, {"method": "roots/list", "params": {}}) == {}


@pytest.mark.parametrize(
    ("revision", "request_", "words"),
    [
        (OLD, form(**FIELDS), "input"),
        (MIDDLE, page(), "page"),
        (MIDDLE, form(several=SEVERAL), "several"),
        (MIDDLE, sample({"type": "tool_result", "toolUseId": "1", "content": []}), "tool results"),
    ],
)
def test_what_a_revision_cannot_show_is_said_in_a_sentence(revision: Any, request_: Any, words: str) -> None:
    said = questions.find_obstacle(revision, request_)
    assert said is not None
    assert words in said
    assert revision.name in said
    assert questions.find_obstacle(LATEST, request_) is None


def test_a_client_can_be_asked_what_its_revision_knows_on_a_stream() -> None:
    declared = {
        "elicitation": {"url": {}},
        "sampling": {"tools": {}},
        "roots": {"listChanged": True},
        "experimental": {},
    }
    others = {"roots": {"listChanged": True}, "experimental": {}}
    assert questions.askable_capabilities(LATEST, declared, STREAM) == declared
    assert questions.askable_capabilities(MIDDLE, declared, STREAM) == {**others, "elicitation": {}, "sampling": {}}
    assert questions.askable_capabilities(OLD, declared, STREAM) == {**others, "sampling": {}}
    assert questions.askable_capabilities(LATEST, declared, JSON_ONLY) == {"experimental": {}}
    assert questions.askable_capabilities(MIDDLE, {}, STREAM) == {}
    assert questions.askable_capabilities(MIDDLE, dict.fromkeys(("elicitation", "sampling", "roots")), STREAM) == {}
    for revision in LEGACY.values():
        ClientCapabilities.model_validate(questions.askable_capabilities(revision, declared, STREAM), by_name=False)
