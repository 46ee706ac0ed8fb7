import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.errors import Rejection, refuse
from mcp_app.protocol.jsonrpc import (
    Limits,
    Notification,
    RequestMessage,
    encode,
    error_response,
    notification,
    parse_message,
    response,
)

BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":%s}}'


def rejected(body: bytes) -> Rejection:
    outcome = parse_message(body)
    assert isinstance(outcome, Rejection), outcome
    assert outcome.status == 400
    return outcome


def nested(depth: int) -> bytes:
    return BODY % (b"[" * (depth - 2) + b"]" * (depth - 2))


@pytest.mark.fault("F5")
@pytest.mark.parametrize("request_id", [0, 1, -5, 2**70, "", "0", "1", "é", "x" * 256])
def test_an_id_is_kept_exactly(request_id: str | int) -> None:
    message = parse_message(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "m"}).encode())
    assert isinstance(message, RequestMessage)
    assert message.request_id == request_id
    assert type(message.request_id) is type(request_id)


@pytest.mark.fault("F5")
@pytest.mark.parametrize("request_id", [b"null", b"true", b"1.0", b"1e2", b"{}", b"[1]", b'"%s"' % (b"x" * 257)])
def test_an_id_of_another_type_or_too_long_is_an_invalid_request_without_id(request_id: bytes) -> None:
    outcome = rejected(b'{"jsonrpc":"2.0","id":%s,"method":"m"}' % request_id)
    assert (outcome.code, outcome.request_id) == (-32600, None)


@pytest.mark.fault("F2")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="unfinished"),
        pytest.param(b"{} {}", id="two values"),
        pytest.param(BODY % b"NaN", id="NaN"),
        pytest.param(BODY % b"-Infinity", id="infinity"),
        pytest.param(BODY % b"1e999", id="float overflow"),
        pytest.param(BODY % (b"9" * 1001), id="1001 digits"),
        pytest.param(BODY % b'{"k":1,"k":1}', id="duplicate key"),
        pytest.param(b'{"id":1,' + (BODY % b"1")[1:], id="duplicate id"),
        pytest.param(BODY % b'"a\nb"', id="raw control character"),
        pytest.param(b"\xef\xbb\xbf" + BODY % b"1", id="byte order mark"),
        pytest.param((BODY % b"1").decode().encode("utf-16"), id="UTF-16"),
        pytest.param((BODY % b"1").decode().encode("utf-16-le"), id="UTF-16 without a mark"),
        pytest.param(BODY % b'"\xff"', id="bad UTF-8"),
        pytest.param(BODY % b'"\xed\xa0\x80"', id="surrogate in UTF-8"),
        pytest.param(nested(65), id="65 levels"),
        pytest.param(b"[" * 100_000, id="100k levels, unfinished"),
        pytest.param(nested(100_000), id="100k levels"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, id="100k objects"),
    ],
)
def test_what_is_not_strict_json_is_a_parse_error_without_id(body: bytes) -> None:
    outcome = rejected(body)
    assert (outcome.code, outcome.request_id) == (-32700, None)


def test_long_integers_are_refused_where_the_site_lifted_pythons_limit() -> None:
    usual = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        assert isinstance(parse_message(BODY % (b"-" + b"9" * 1000)), RequestMessage)
        assert rejected(BODY % (b"9" * 1001)).code == -32700
    finally:
        sys.set_int_max_str_digits(usual)


def test_64_levels_are_read() -> None:
    assert isinstance(parse_message(nested(64)), RequestMessage)


def test_brackets_inside_strings_are_no_depth() -> None:
    assert isinstance(parse_message(BODY % (b'"' + b'\\"[{' * 1000 + b'"')), RequestMessage)


@pytest.mark.fault("I11")
def test_I11_more_values_than_the_limit_are_refused_with_the_number_and_text_is_one_value() -> None:
    within = Limits(max_values=100)
    # The message's own object and four members, and its params' object and one.
    for fitting in (b"[" + b"1," * 93 + b"1]", b'{"a":[],"b":{"c":[1,2]}}', b'"' + b",[{" * 1_000 + b'"'):
        assert isinstance(parse_message(BODY % fitting, within), RequestMessage)
    for too_many in (b"[" + b"1," * 100 + b"1]", b"[" + b"[]," * 60 + b"[]]", b"[" + b'{"a":1},' * 60 + b"1]"):
        outcome = parse_message(BODY % too_many, within)
        assert isinstance(outcome, Rejection)
        assert outcome.code == -32700
        assert "at most 100 values" in outcome.message


def test_the_limits_are_the_callers() -> None:
    body = BODY % b"[[]]"
    assert isinstance(parse_message(body, Limits(max_depth=4)), RequestMessage)
    assert isinstance(parse_message(body, Limits(max_depth=3)), Rejection)


def test_a_depth_beyond_pythons_own_is_still_a_value() -> None:
    assert isinstance(parse_message(nested(100_000), Limits(max_depth=10**6)), Rejection)


@pytest.mark.fault("F2")
@pytest.mark.parametrize(
    "value",
    [rb'"\ud800"', rb'"\uDFFF"', rb'"\udc00\ud800"', rb'"\u0000"', rb'{"\u0000":1}', rb'[{"k":["\ud83d"]}]'],
)
def test_lone_surrogates_and_nul_are_an_invalid_request_with_its_id(value: bytes) -> None:
    outcome = rejected(BODY % value)
    assert (outcome.code, outcome.request_id) == (-32600, 1)


def test_an_id_that_cannot_be_stored_is_not_echoed() -> None:
    outcome = rejected(rb'{"jsonrpc":"2.0","id":"\ud800","method":"m"}')
    assert (outcome.code, outcome.request_id) == (-32600, None)


@pytest.mark.parametrize(("value", "text"), [(rb'"\ud83d\ude00"', "😀"), (rb'"\\u0000"', "\\u0000")])
def test_surrogate_pairs_and_escaped_backslashes_are_plain_text(value: bytes, text: str) -> None:
    message = parse_message(BODY % value)
    assert isinstance(message, RequestMessage)
    assert message.params["a"] == text


@pytest.mark.fault("F4")
@pytest.mark.parametrize("body", [b"[]", b"[%s]" % (BODY % b"1"), b"1", b'"x"', b"null", b"true"])
def test_batches_and_scalars_are_invalid_requests(body: bytes) -> None:
    assert rejected(body).code == -32600


@pytest.mark.parametrize(
    "change",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2.0},
        {"jsonrpc": None},
        {"method": None},
        {"method": 1},
        {"params": []},
        {"params": "x"},
        {"result": {}},
        {"error": {"code": 1, "message": ""}},
    ],
)
def test_a_malformed_message_is_an_invalid_request_with_its_id(change: dict[str, Any]) -> None:
    outcome = rejected(json.dumps({"jsonrpc": "2.0", "id": "a", "method": "m"} | change).encode())
    assert (outcome.code, outcome.request_id) == (-32600, "a")


def test_params_that_are_null_are_absent() -> None:
    assert parse_message(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}') == RequestMessage(1, "ping")
    initialized = b'{"jsonrpc":"2.0","method":"notifications/initialized","params":null}'
    assert parse_message(initialized) == Notification("notifications/initialized")


def test_a_posted_response_is_an_invalid_request() -> None:
    assert rejected(b'{"jsonrpc":"2.0","id":1,"result":{}}').code == -32600


def test_a_message_without_id_is_a_notification() -> None:
    assert parse_message(b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}') == Notification("n", {"a": 1})


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.just("\ud800"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", 2]),
        "id": JSON_VALUES,
        "method": st.sampled_from(["tools/list", "tools/call"]) | JSON_VALUES,
        "params": st.dictionaries(st.sampled_from(["_meta", "name", "arguments"]), JSON_VALUES) | JSON_VALUES,
        "result": JSON_VALUES,
    },
)
BODIES = (
    st.binary(max_size=200)
    | st.text('{}[]":,\\u0dD8e19. nulltrue', max_size=200).map(str.encode)
    | (MESSAGES | JSON_VALUES).map(lambda value: json.dumps(value).encode())
)


@pytest.mark.fault("F2")
@given(BODIES)
def test_any_bytes_become_a_value(body: bytes) -> None:
    outcome = parse_message(body)
    assert isinstance(outcome, (RequestMessage, Notification, Rejection))
    if isinstance(outcome, Rejection):
        assert json.loads(encode(error_response(outcome)))["error"]["code"] in (-32700, -32600)
    if isinstance(outcome, RequestMessage):
        assert json.loads(encode(response(outcome.request_id, outcome.params)))["result"] == outcome.params


def test_encoding_is_one_line_of_utf8() -> None:
    assert encode({"a": "é\n\u2028"}) == '{"a":"é\\n\u2028"}'.encode()


@pytest.mark.parametrize(("text", "sent"), [("a\ud800b", "a\ufffdb"), ("\udc00", "\ufffd"), ("\ud83d\ude00", "😀")])
def test_encoding_survives_lone_surrogates(text: str, sent: str) -> None:
    assert json.loads(encode({"a": [text], text: 1})) == {"a": [sent], sent: 1}


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_encoding_refuses_what_is_no_json(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode({"a": number})


def test_an_error_echoes_the_id_with_its_type_and_omits_what_is_unknown() -> None:
    assert error_response(refuse(-32600, "no", 0)) == {
        "jsonrpc": "2.0",
        "id": 0,
        "error": {"code": -32600, "message": "no"},
    }
    assert error_response(refuse(-32022, "no", "", data={"a": 1})) == {
        "jsonrpc": "2.0",
        "id": "",
        "error": {"code": -32022, "message": "no", "data": {"a": 1}},
    }
    assert "id" not in error_response(refuse(-32700, "no"))


def test_a_notification_has_no_id() -> None:
    assert notification("n", {"a": None}) == {"jsonrpc": "2.0", "method": "n", "params": {"a": None}}
