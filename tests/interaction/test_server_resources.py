"""server/resources."""

import base64

import pytest

from mcp_app.resources import resource
from tests.interaction.answers import error_of, result_of

pytestmark = pytest.mark.usefixtures("offered")


def test_listing_resources_shows_each_with_its_members() -> None:
    result = result_of("resources/list")
    assert [each["uri"] for each in result["resources"]] == ["image://dot", "mine://notes", "notes://today"]
    assert result["resources"][2] == {
        "uri": "notes://today",
        "name": "today",
        "title": "Today",
        "description": "The notes of today.",
        "mimeType": "text/markdown",
        "size": 7,
    }


def test_resource_templates_are_listed_apart() -> None:
    templates = result_of("resources/templates/list")["resourceTemplates"]
    assert [each["uriTemplate"] for each in templates] == ["broken://{how}", "notes://{day}/{hour}"]


def test_text_content() -> None:
    [content] = result_of("resources/read", uri="notes://today")["contents"]
    assert content == {"uri": "notes://today", "mimeType": "text/markdown", "text": "# Today"}


def test_binary_data_is_properly_encoded() -> None:
    [content] = result_of("resources/read", uri="image://dot")["contents"]
    assert base64.b64decode(content["blob"], validate=True) == b"\x00\x01\xff"


def test_a_read_may_return_several_contents_of_sub_resources() -> None:
    contents = result_of("resources/read", uri="mine://notes")["contents"]
    assert [each["uri"] for each in contents] == ["mine://notes/0", "mine://notes/1"]


def test_a_template_is_read_by_its_variables() -> None:
    [content] = result_of("resources/read", uri="notes://monday/7")["contents"]
    assert content["text"] == '{"day": "monday", "hour": 7}'
    assert content["mimeType"] == "application/json"


@pytest.mark.parametrize("uri", ["notes://yesterday", "notes://monday/noon", "other://a", "notes://today/"])
def test_a_resource_that_does_not_exist_is_invalid_params_with_its_uri(uri: str) -> None:
    message = error_of("resources/read", uri="no://such")["message"]
    assert "not found" in message
    assert error_of("resources/read", uri=uri) == {"code": -32602, "message": message, "data": {"uri": uri}}


def test_all_resource_uris_are_validated() -> None:
    error = error_of("resources/read", uri="../../etc/passwd")
    assert (error["code"], error["data"]) == (-32602, {"uri": "../../etc/passwd"})


def test_internal_errors_are_32603_without_details() -> None:
    assert error_of("resources/read", uri="broken://said") == {"code": -32603, "message": "The archive is closed."}
    error = error_of("resources/read", uri="broken://unsaid")
    assert error["code"] == -32603
    assert "secret" not in error["message"]


def test_a_resource_that_the_caller_may_not_have_is_as_unknown_as_one_that_is_not_there() -> None:
    resource("secret://a", available=lambda visit: False)(lambda: "")
    resource("secret://{b}/c", available=lambda visit: False)(lambda b: b)
    assert not [each for each in result_of("resources/list")["resources"] if each["uri"].startswith("secret")]
    templates = result_of("resources/templates/list")["resourceTemplates"]
    assert not [each for each in templates if each["uriTemplate"].startswith("secret")]
    unknown = error_of("resources/read", uri="none://a")
    for uri in ("secret://a", "secret://b/c"):
        assert error_of("resources/read", uri=uri) == {**unknown, "data": {"uri": uri}}
