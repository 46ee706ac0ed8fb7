"""The settings of the pages: loaded as they stand, and nothing is found wrong with them."""

import json
import logging.config
import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.asgi import get_asgi_application

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.routing import mcp_application
from tests.docs.pages import Snippet, executed, snippet
from tests.management.findings import found

WHOSE = [
    snippet("access.md#the-sites-own-login"),
    snippet("access.md#as-an-oauth-21-resource-server"),
    snippet("access.md#as-an-oauth-21-resource-server:2"),
]


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize("block", WHOSE, ids=lambda block: block.name)
def test_what_a_page_sets_is_found_well(
    block: Snippet, settings: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_CLIENT_SECRET", "a secret")
    configure(ALLOW_ANONYMOUS=False)
    configure(**executed(block, MCP={}, os=os)["MCP"])
    assert found(deploy=True) == []


@pytest.mark.django_db(databases="__all__")
def test_several_endpoints_are_served_by_the_pages_application(
    settings: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(**executed(snippet("access.md#several-endpoints-on-one-site"), MCP={})["MCP"])
    granted = {"application": get_asgi_application(), "mcp_application": mcp_application}
    names = executed(snippet("access.md#several-endpoints-on-one-site:2"), **granted)
    monkeypatch.setitem(globals(), "application", names["application"])
    settings.ASGI_APPLICATION = f"{__name__}.application"
    with isolated_registries():
        assert found() == []


@pytest.fixture
def _logs_as_before() -> Iterator[None]:
    calls = logging.getLogger("mcp_app.calls")
    before = calls.handlers[:], calls.level, calls.propagate
    yield
    calls.handlers[:], calls.level, calls.propagate = before


@pytest.mark.usefixtures("_logs_as_before")
def test_the_log_of_calls_is_written_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    logging.config.dictConfig(executed(snippet("operations.md#what-became-of-each-call-the-log:2"))["LOGGING"])
    logging.getLogger("mcp_app.calls").info("dig completed", extra={"mcp_call": {"tool": "dig", "waited": 0.1}})
    told = json.loads(capsys.readouterr().err)
    assert told == {"message": "dig completed", "mcp_call": {"tool": "dig", "waited": 0.1}}
