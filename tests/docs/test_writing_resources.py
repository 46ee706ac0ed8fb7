"""The resources and prompts of docs/how-to/writing-resources.md are executed unchanged, and used as described there."""

import re
from datetime import date
from inspect import signature
from typing import Any

import pytest

from mcp_app.catalogue import prompts
from mcp_app.catalogue.changes import resource_subject
from mcp_app.models import ChangeVersion
from mcp_app.resources import ReadContext, resource
from mcp_app.testing.client import Client
from mcp_app.testing.outcomes import MCPError
from tests.docs.conftest import Execute
from tests.docs.pages import DOCS, snippets

pytestmark = pytest.mark.usefixtures("_page")


PAGE = DOCS / "how-to/writing-resources.md"
INTERNAL = {"ended_by", "to_run", "elicit_page"}
"""Attributes of a visit for the code that runs it, and features that only tools have."""

Names = dict[str, Any]


def options() -> set[str]:
    """Return the options of both decorators."""
    parameters = [*signature(resource).parameters.values(), *signature(prompts._register).parameters.values()]
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}


def of_a_visit() -> set[str]:
    """Return the attributes of a visit for authors."""
    methods = {name for kind in ReadContext.__mro__ for name in vars(kind) if not name.startswith("_")}
    return (methods | {"principal", "arguments", "uri"}) - INTERNAL


@pytest.fixture
def page(execute: Execute) -> Names:
    """Returns the names of the page's blocks, executed as one module."""
    return execute(*snippets("how-to/writing-resources.md"))


@pytest.fixture
def _page(page: Names) -> None: ...


def text(client: Client, uri: str) -> str:
    [content] = client.read(uri).contents
    return str(content.text)


def refused(client: Client, uri: str) -> tuple[int, str]:
    with pytest.raises(MCPError) as error:
        client.read(uri)
    return error.value.code, error.value.message


def assert_not_found(client: Client, uri: str) -> None:
    """Check that a resource is refused as one that never existed."""
    code, told = refused(client, "no://such")
    assert code == -32602
    assert "not found" in told
    assert refused(client, uri) == (code, told)


def test_a_resource_and_a_template_are_read_and_stay_functions(mcp_client: Client, page: Names) -> None:
    assert text(mcp_client, "notes://about") == "One note a day."
    read = mcp_client.read("notes://2026-07-28")
    assert [(each.mime_type, each.text) for each in read.contents] == [("text/markdown", "# Moved in")]
    assert read.ttl_ms == 60_000
    assert page["note"](date(2026, 7, 28)) == "# Moved in"
    for uri in ("notes://2026-07-30", "notes://yesterday"):
        assert_not_found(mcp_client, uri)


def test_what_is_returned_becomes_contents(mcp_client: Client) -> None:
    [cover] = mcp_client.read("notes://2026-07-28/cover").contents
    assert (cover.mime_type, cover.blob) == ("image/png", "iVBORw==")
    week = mcp_client.read("notes://weeks/31").contents
    assert [each.uri for each in week] == ["notes://2026-07-28", "notes://2026-07-29"]
    assert refused(mcp_client, "notes://weeks/30")[0] == -32602


def test_a_draft_is_its_authors_alone(mcp_client: Client, django_user_model: Any) -> None:
    uri = "drafts://ann/2026-07-28"
    assert_not_found(mcp_client, uri)
    mcp_client.force_login(django_user_model.objects.create_user("ben"))
    assert_not_found(mcp_client, uri)
    mcp_client.force_login(django_user_model.objects.create_user("ann"))
    assert text(mcp_client, uri) == '{"author": "ann", "day": "2026-07-28", "asked as": "drafts://ann/2026-07-28"}'
    assert mcp_client.read(uri).cache_scope == "private"


def test_members_are_listed_with_what_has_no_variables(mcp_client: Client) -> None:
    listed = [each.uri for each in mcp_client.resources()]
    assert listed == ["notes://about", "pictures://2026-07-28", "pictures://2026-07-29"]
    [picture] = mcp_client.read(listed[-1]).contents
    assert (picture.mime_type, picture.blob) == ("image/png", "iVBORw==")


def test_arguments_go_on_as_was_typed_and_for_who_asks(mcp_client: Client, django_user_model: Any) -> None:
    assert mcp_client.complete("letters://{author}/{day}", "day", "2026-07-2") == ["2026-07-28", "2026-07-29"]
    assert mcp_client.complete("review", "day", "2026-07-29") == ["2026-07-29"]
    assert mcp_client.complete("letters://{author}/{day}", "author") == []
    mcp_client.force_login(django_user_model.objects.create_user("ann"))
    assert mcp_client.complete("letters://{author}/{day}", "author", "", day="2026-07-28") == ["ann"]
    assert text(mcp_client, "letters://ann/2026-07-28") == "ann, 2026-07-28"


def test_prompts_are_made_of_texts(mcp_client: Client) -> None:
    assert [each.content.text for each in mcp_client.prompt("plan").messages] == ["What should I do today?"]
    messages = mcp_client.prompt("review", day="2026-07-28", tone="strict").messages
    assert [(each.role, each.content.text) for each in messages] == [
        ("user", "Be strict. What did I miss?"),
        ("user", "# Moved in"),
        ("assistant", "Let me look."),
    ]
    [day, tone] = next(each for each in mcp_client.prompts() if each.name == "review").arguments
    assert (day.required, day.description, tone.required) == (True, "which day, as 2026-07-28", False)
    for arguments, words in (({"day": "2026-07-30"}, "There is no note of 2026-07-30."), ({"day": "then"}, "day")):
        with pytest.raises(MCPError, match=words) as error:
            mcp_client.prompt("review", **arguments)
        assert error.value.code == -32602


@pytest.mark.django_db(databases="__all__")
def test_changes_are_told_once_they_are_committed(page: Names, django_capture_on_commit_callbacks: Any) -> None:
    uri = "notes://2026-07-30"
    with django_capture_on_commit_callbacks(execute=True) as told:
        page["write"](date(2026, 7, 30), "# Slept")
        assert not ChangeVersion.objects.filter(subject=resource_subject(uri)).exists()
    assert len(told) == 2
    assert ChangeVersion.objects.get(subject=resource_subject(uri)).version == 1
    assert ChangeVersion.objects.filter(subject__startswith="resources").exists()


@pytest.mark.parametrize("words", [options, of_a_visit])
def test_every_option_and_what_a_visit_has_is_on_the_page(words: Any) -> None:
    text = PAGE.read_text()
    assert {word for word in words() if not re.search(rf"\b{word}\b", text)} == set()
