import pytest
from mcp_types import jsonrpc as official

from mcp_app.protocol import errors
from mcp_app.protocol.errors import fail, is_author_code, method_not_found, missing_client_capability, refuse


def test_the_codes_are_those_of_the_specification() -> None:
    assert errors.HEADER_MISMATCH == official.HEADER_MISMATCH
    assert errors.MISSING_CLIENT_CAPABILITY == official.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert errors.UNSUPPORTED_VERSION == official.UNSUPPORTED_PROTOCOL_VERSION
    assert (errors.PARSE_ERROR, errors.INVALID_REQUEST) == (official.PARSE_ERROR, official.INVALID_REQUEST)
    assert errors.METHOD_NOT_FOUND == official.METHOD_NOT_FOUND
    assert (errors.INVALID_PARAMS, errors.INTERNAL_ERROR) == (official.INVALID_PARAMS, official.INTERNAL_ERROR)


def test_own_codes_lie_outside_the_reserved_range() -> None:
    defined = {getattr(official, name) for name in official.__all__ if name.isupper()}
    own = set(errors.STATUS_BEFORE_METHOD) - defined
    assert {errors.FORBIDDEN, errors.NOT_ACCEPTABLE} <= own
    assert not any(-32768 <= code <= -32000 for code in own)


@pytest.mark.parametrize("code", [-32603, -32602, -32700, 1, -1, 0, 404, -31999, -32769])
def test_authors_may_answer_with_json_rpcs_errors_and_with_codes_that_nobody_has_reserved(code: int) -> None:
    assert is_author_code(code)


@pytest.mark.parametrize("code", [-32000, -32002, -32020, -32021, -32042, -32050, -32099, -32768, True, "1", 1.0])
def test_authors_may_not_answer_with_reserved_codes(code: object) -> None:
    assert not is_author_code(code)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *[(code, 400) for code in (-32700, -32600, -32602, -32020, -32021, -32022)],
        (-32601, 404),
        *[(code, code) for code in (401, 403, 405, 406, 413, 415, 429, 503)],
    ],
)
def test_before_the_method_the_status_follows_the_code(code: int, status: int) -> None:
    assert refuse(code, "no").status == status


@pytest.mark.parametrize(("code", "status"), [(-32602, 200), (-32603, 200), (-32601, 404), (-32021, 400)])
def test_in_the_method_an_error_is_200_but_for_two_codes(code: int, status: int) -> None:
    assert fail(code, "no", 1).status == status


def test_an_unknown_method_is_404_and_its_name_is_clipped() -> None:
    rejected = method_not_found("x" * 10_000, "a")
    assert (rejected.code, rejected.status, rejected.request_id) == (-32601, 404, "a")
    assert len(rejected.message) < 200


def test_a_missing_capability_lists_what_is_required_as_an_object() -> None:
    rejected = missing_client_capability({"sampling": {}}, 0)
    assert (rejected.code, rejected.status, rejected.request_id) == (-32021, 400, 0)
    assert rejected.data == {"requiredCapabilities": {"sampling": {}}}
    assert "sampling" in rejected.message
