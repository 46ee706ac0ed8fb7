import base64
from typing import Any

import pytest

from mcp_app.protocol.headers import HeaderFault, Headers, check_param_headers, read_encoded_field
from tests.protocol.posts import ABSENT, headers_of, rejection, route


def sentinel(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decoded(value: str | bytes) -> str | HeaderFault | None:
    return read_encoded_field(headers_of({"mcp-name": value}), "Mcp-Name")


def test_names_ignore_case_and_values_lose_their_outer_whitespace() -> None:
    headers = Headers([(b"MCP-Name", b" \t Add\t ")])
    assert headers.value("mcp-name") == "Add"
    assert headers.value("other") is None


def test_a_doubled_field_has_no_single_value() -> None:
    headers = Headers([(b"authorization", b"a"), (b"Authorization", b"a")])
    assert len(headers.values("Authorization")) == 2
    assert headers.value("Authorization") is None
    assert headers.values("Authorization") == ("a", "a")


@pytest.mark.parametrize("text", ["Hello", "Hello, 世界", " padded ", "line1\nline2", "=?base64?literal?=", ""])
def test_a_wrapped_value_is_decoded_once(text: str) -> None:
    assert decoded(sentinel(text)) == text


@pytest.mark.parametrize(
    "value", ["=?base64?SGVsbG8=", "SGVsbG8=?=", "=?BASE64?SGVsbG8=?=", "=?base64?=", "x=?base64?SGVsbG8=?=", "?="]
)
def test_what_is_not_wrapped_exactly_is_a_literal(value: str) -> None:
    assert decoded(value) == value


@pytest.mark.parametrize(
    "payload", ["SGVsbG8", "SGVsbG8==", "SGVs!!!bG8=", "SGVs bG8=", "_-8=", "SGVsbG9=", "/w==", "7aCA"]
)
def test_bad_base64_and_bad_utf8_are_faults(payload: str) -> None:
    assert isinstance(decoded(f"=?base64?{payload}?="), HeaderFault)


@pytest.mark.parametrize("value", [b"caf\xc3\xa9", b"a\x00b", b"a\x7fb", b"a\nb"])
def test_characters_outside_visible_ascii_are_faults(value: bytes) -> None:
    assert isinstance(decoded(value), HeaderFault)


@pytest.mark.fault("F6")
@pytest.mark.parametrize("name", ["mcp-protocol-version", "mcp-method", "mcp-name"])
@pytest.mark.parametrize("bend", ["missing", "doubled", "different", "upper case", "ill-formed"])
def test_a_bent_metadata_header_is_a_header_mismatch(name: str, bend: str) -> None:
    good = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}[name]
    bent = {
        "missing": ABSENT,
        "doubled": [good, good],
        "different": good + "x",
        "upper case": good.upper() + "Z",
        "ill-formed": b"\xff" + good.encode(),
    }[bend]
    outcome = rejection("tools/call", {"name": "echo"}, headers={name: bent}, request_id="r")
    assert (outcome.code, outcome.status, outcome.request_id) == (-32020, 400, "r")


def test_header_values_are_case_sensitive() -> None:
    assert rejection("tools/list", headers={"mcp-method": "TOOLS/LIST"}).code == -32020


@pytest.mark.parametrize(
    ("method", "member"),
    [
        ("tools/call", "name"),
        ("prompts/get", "name"),
        ("resources/read", "uri"),
        ("tasks/get", "taskId"),
        ("tasks/update", "taskId"),
        ("tasks/cancel", "taskId"),
    ],
)
def test_the_name_header_mirrors_the_member_of_its_method(method: str, member: str) -> None:
    assert route(method, {member: "é x"}, headers={"mcp-name": sentinel("é x")}).method == method
    assert rejection(method, {member: "é x"}, headers={"mcp-name": "other"}).code == -32020
    assert rejection(method, {member: "é x"}, headers={"mcp-name": ABSENT}).code == -32020


def test_outer_whitespace_and_any_case_of_a_header_name_are_accepted() -> None:
    route("tools/call", {"name": "echo"}, headers={"mcp-name": ABSENT, "MCP-NAME": "  echo  "})


def test_the_name_header_is_not_asked_of_other_methods() -> None:
    route("tools/list", headers={"mcp-name": ABSENT})
    route("tasks/result", {"taskId": "t"})


@pytest.mark.parametrize("name", [ABSENT, 5, None])
def test_a_call_without_a_usable_name_is_left_to_the_method_unless_a_header_claims_one(name: Any) -> None:
    params = {} if name is ABSENT else {"name": name}
    route("tools/call", params)
    assert rejection("tools/call", params, headers={"mcp-name": "echo"}).code == -32020


PARAMS = {"Region": ("region",), "Deep": ("outer", "inner")}


def checked(arguments: dict[str, Any], **fields: Any) -> int | None:
    named = {f"mcp-param-{name}": value for name, value in fields.items()}
    outcome = check_param_headers(headers_of(named), PARAMS, arguments, 3)
    if outcome is None:
        return None
    assert (outcome.status, outcome.request_id) == (400, 3)
    return outcome.code


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("Hello", "=?base64?SGVsbG8=?="),
        ("Hello, 世界", sentinel("Hello, 世界")),
        ("", ""),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        (42, "42"),
        (42, "42.0"),
        (42.0, "42"),
        (-7, "-7"),
        (42, "4.2e1"),
        (2**60 + 1, str(2**60 + 1)),
        (True, "true"),
        (False, "false"),
    ],
)
def test_a_param_header_equal_to_its_argument_passes(value: Any, header: str) -> None:
    assert checked({"region": value}, region=header) is None


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("a", "b"),
        ("a", "A"),
        ("a", ABSENT),
        ("", ABSENT),
        ("Hello", "=?base64?SGVsbG8?="),
        ("Hello", "=?base64?SGVs!!!bG8=?="),
        ("é", "é"),
        ("a", ["a", "a"]),
        (42, "43"),
        (42, "forty-two"),
        (42, "0x2a"),
        (42, ""),
        (42, "1e99999999999999999999"),
        (2**60 + 1, str(2**60)),
        (1, "true"),
        (True, "1"),
        (True, "True"),
        ("true", "=?base64?dHJ1ZQ?="),
        (None, "null"),
        (None, ""),
        ({"a": 1}, "{}"),
    ],
)
def test_a_param_header_that_differs_from_its_argument_is_a_mismatch(value: Any, header: Any) -> None:
    assert checked({"region": value}, region=header) == -32020


def test_a_header_for_an_absent_argument_is_a_mismatch() -> None:
    assert checked({}, region="x") == -32020


@pytest.mark.parametrize("arguments", [{}, {"region": None}, {"outer": None}, {"outer": 5}, {"region": ["x"]}])
def test_without_a_value_that_a_header_can_carry_none_is_expected(arguments: dict[str, Any]) -> None:
    assert checked(arguments) is None


def test_nested_arguments_are_read_along_their_path() -> None:
    assert checked({"outer": {"inner": "x"}}, deep="x") is None
    assert checked({"outer": {"inner": "x"}}, deep="y") == -32020
    assert checked({"outer": {"inner": "x"}}) == -32020


def test_unrecognised_param_headers_are_ignored() -> None:
    assert checked({}, other=b"\xff") is None
