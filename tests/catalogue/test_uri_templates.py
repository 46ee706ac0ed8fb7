"""URI templates of level 1: matching a URI returns the variables."""

import pytest

from mcp_app.catalogue import uri_templates
from mcp_app.catalogue.declaration import UnusableOptionError


def match(template: str, uri: str) -> dict[str, str] | None:
    parsed = uri_templates.parse(template)
    assert parsed is not None
    return parsed.match(uri)


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("notes://{day}", "notes://today", {"day": "today"}),
        ("test://{id}/data", "test://12/data", {"id": "12"}),
        ("x://{a}/{b}", "x://1/2", {"a": "1", "b": "2"}),
        ("x://{a}-{b}", "x://1-2-3", {"a": "1", "b": "2-3"}),
        ("x://{a}-{b}-", "x://1-2-", {"a": "1", "b": "2"}),
        ("x://{a}", "x://caf%C3%A9%20%2F", {"a": "café /"}),
        ("x://a?q={q}", "x://a?q=1&r=2", {"q": "1&r=2"}),
        ("x://{a}--{b}", "x://1---2", {"a": "1", "b": "-2"}),
    ],
)
def test_variables_are_found_and_decoded(template: str, uri: str, values: dict[str, str]) -> None:
    assert match(template, uri) == values


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("notes://{day}", "notes://"),
        ("notes://{day}", "notes://a/b"),
        ("notes://{day}", "notes://a?b"),
        ("notes://{day}", "note://a"),
        ("x://{a}/{b}", "x://1/"),
        ("x://{a}/{b}", "x:///2"),
        ("x://{a}-{b}-", "x://1-2"),
        ("x://{a}--", "x://--"),
        ("x://{a}aa", "x://aa"),
        ("x://{a}", "x://%ff"),
        ("x://{a}", "x://%00"),
    ],
)
def test_other_uris_are_not_of_the_template(template: str, uri: str) -> None:
    assert match(template, uri) is None


@pytest.mark.parametrize("value", ["..", "%2e%2e", "%2E", "a%2fb", "..%2F..%2Fetc", "a%5Cb"])
def test_no_value_leaves_its_folder_under_file(value: str) -> None:
    assert match("file:///notes/{name}", f"file:///notes/{value}") is None
    assert match("notes://{name}", f"notes://{value}") is not None


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("x://{a}{b}", "some text between"),
        ("x://{a}/{a}", "may appear once"),
        ("{scheme}://a", "cannot have variables"),
        ("x{a}://b", "cannot have variables"),
        ("x://{+path}", "neither a URI"),
        ("x://{a*}", "neither a URI"),
        ("x://{a,b}", "neither a URI"),
        ("x://{}", "neither a URI"),
        ("x://a b", "neither a URI"),
        ("today", "neither a URI"),
    ],
)
def test_an_unusable_template_is_refused(template: str, reason: str) -> None:
    with pytest.raises(UnusableOptionError, match=reason):
        uri_templates.parse(template)


def test_a_uri_without_variables_is_no_template() -> None:
    assert uri_templates.parse("notes://today") is None
