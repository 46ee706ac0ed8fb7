"""The settings of the pages load unchanged, and the checks find no error in them."""

import json
import logging.config
import os
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from django.core.asgi import get_asgi_application

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.checks import celery as celery_checks
from mcp_app.checks import channels as channels_checks
from mcp_app.diagnosis.channel_layer import CONFIGURE
from mcp_app.routing import mcp_application
from tests.docs.pages import DOCS, ROOT, Snippet, executed, snippet
from tests.management.findings import found

WHOSE = [
    snippet("how-to/access.md#tokens-of-the-sites-own"),
    snippet("how-to/tokens.md#give-a-user-a-token"),
    snippet("how-to/access.md#the-sites-own-login"),
    snippet("how-to/access.md#as-an-oauth-21-resource-server"),
    snippet("how-to/access.md#as-an-oauth-21-resource-server:2"),
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
    configure(**executed(snippet("how-to/access.md#several-endpoints-on-one-site"), MCP={})["MCP"])
    granted = {"application": get_asgi_application(), "mcp_application": mcp_application}
    names = executed(snippet("how-to/access.md#several-endpoints-on-one-site:2"), **granted)
    monkeypatch.setitem(globals(), "application", names["application"])
    settings.ASGI_APPLICATION = f"{__name__}.application"
    with isolated_registries():
        assert found() == []


def test_routers_of_ones_own_are_those_of_the_larger_project() -> None:
    docstring, _, code = (ROOT / "tests/site_setup/larger/company/asgi.py").read_text().partition("\n\n")
    assert docstring.endswith('"""')
    # Its imports come after Django's setup. The project's linter needs a `noqa` for that, a page does not.
    assert snippet("how-to/adding.md#routers-of-your-own").text == code.replace("  # noqa: E402", "")


def test_on_several_hosts_workers_and_the_channel_layer_are_found_well(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "a password")
    names = executed(snippet("how-to/deployment.md#settings-on-several-hosts"), os=os)
    assert names["DATABASES"]["default"]["PASSWORD"] == "a password"
    settings.CHANNEL_LAYERS = names["CHANNEL_LAYERS"]
    monkeypatch.setattr(channels_checks, "redis_major", lambda: 8)
    assert channels_checks.check_layers() == []
    site = Celery("mysite", set_as_current=False)
    site.config_from_object(SimpleNamespace(**names), namespace="CELERY")
    assert site.conf.broker_url.startswith("redis://")
    monkeypatch.setattr(celery_checks, "current_app", site)
    for check in (celery_checks.check_broker, celery_checks.check_workers):
        assert check() == []
    layer = names["CHANNEL_LAYERS"]["default"]["BACKEND"]
    assert all(fact in CONFIGURE for fact in ("CHANNEL_LAYERS", f" {layer} ", "docs/how-to/deployment.md"))


def test_what_the_example_site_takes_from_its_environment_is_on_the_page_and_in_its_settings() -> None:
    code = (ROOT / "mcpsite" / "settings.py").read_text()
    taken = set(re.findall(r'environ\.get\("(MCPSITE_\w+)"', code))
    assert (
        set(re.findall(r"^\| `(MCPSITE_\w+)` \|", (DOCS / "how-to/deployment.md").read_text(), re.MULTILINE)) == taken
    )
    assert set(re.findall(r"^(MCPSITE_\w+) ", code, re.MULTILINE)) == taken


@pytest.fixture
def _logs_as_before() -> Iterator[None]:
    calls = logging.getLogger("mcp_app.calls")
    before = calls.handlers[:], calls.level, calls.propagate
    yield
    calls.handlers[:], calls.level, calls.propagate = before


@pytest.mark.usefixtures("_logs_as_before")
def test_the_log_of_calls_is_written_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    logging.config.dictConfig(executed(snippet("how-to/operations.md#what-became-of-each-call-the-log:2"))["LOGGING"])
    logging.getLogger("mcp_app.calls").info("dig completed", extra={"mcp_call": {"tool": "dig", "waited": 0.1}})
    told = json.loads(capsys.readouterr().err)
    assert told == {"message": "dig completed", "mcp_call": {"tool": "dig", "waited": 0.1}}
