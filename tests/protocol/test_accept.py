from typing import Any

import pytest

from mcp_app.protocol.headers import Accept, check_content_type
from tests.protocol.posts import ABSENT, headers_of, rejection, route

BOTH = Accept(json=True, event_stream=True)
ONLY_JSON = Accept(json=True, event_stream=False)
ONLY_STREAM = Accept(json=False, event_stream=True)


@pytest.mark.fault("F3")
@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (ABSENT, BOTH),
        ("", BOTH),
        ("*/*", BOTH),
        ("text/event-stream, application/json", BOTH),
        (["application/json", "text/event-stream"], BOTH),
        ("Application/JSON ; charset=utf-8 , text/html", ONLY_JSON),
        ("application/json", ONLY_JSON),
        ("application/*", ONLY_JSON),
        ("text/event-stream", ONLY_STREAM),
        ("text/*;q=0.1", ONLY_STREAM),
        ("text/event-stream;q=0, */*", ONLY_JSON),
        ("application/json;q=0.000, */*;q=0.5", ONLY_STREAM),
        ("application/json;q=0.001", ONLY_JSON),
    ],
)
def test_accept_is_honoured(accept: Any, expected: Accept) -> None:
    assert route(headers={"accept": accept}).accept == expected


@pytest.mark.fault("F3")
@pytest.mark.parametrize("accept", ["text/html", "image/*", "application/json;q=0", "*/*;q=0", "application/jsonx"])
def test_neither_form_accepted_is_406(accept: str) -> None:
    outcome = rejection(headers={"accept": accept}, request_id=0)
    assert (outcome.status, outcome.request_id) == (406, 0)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream;q=0, */*"])
def test_listening_without_event_streams_is_406(accept: str) -> None:
    assert rejection("subscriptions/listen", headers={"accept": accept}).status == 406


def test_listening_needs_no_json() -> None:
    assert route("subscriptions/listen", headers={"accept": "text/event-stream"}).accept == ONLY_STREAM


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON", 'application/json; charset="UTF-8"; x=y']
)
def test_json_in_utf8_is_read(content_type: str) -> None:
    assert check_content_type(headers_of({"content-type": content_type})) is None


@pytest.mark.fault("F3")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"content-type": ""},
        {"content-type": "text/plain"},
        {"content-type": "text/plain; application/json"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json-patch+json"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": ["application/json", "application/json"]},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_any_other_media_type_is_415(fields: dict[str, Any]) -> None:
    outcome = check_content_type(headers_of(fields))
    assert outcome is not None
    assert outcome.status == 415
