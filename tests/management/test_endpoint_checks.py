"""The system checks of several endpoints. Each finds one mistake and names its place."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.management.serving import welcome
from mcp_app.tools import tool
from mcp_app.transport.consumers import MCPConsumer
from tests.management.findings import found

pytestmark = pytest.mark.usefixtures("_mounted")


SITE = "https://example.com/mcp"
OAUTH = {
    "AUTHENTICATOR": "mcp_app.auth.oauth.jwts.bearer",
    "OAUTH_ISSUERS": ["https://login.example.com"],
    "OAUTH_JWKS_URLS": {"https://login.example.com": "https://login.example.com/keys"},
}
A: dict[str, Any] = {"PATH": "/mcp/a"}
B: dict[str, Any] = {"PATH": "/mcp/b"}


@pytest.fixture
def _mounted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    found()  # imports the application, which creates its endpoint
    monkeypatch.setattr(MCPConsumer, "mounted", {"default", "a", "b"})
    with isolated_registries():
        yield


def test_endpoints_that_share_nothing_are_well(configure: Any) -> None:
    tool(name="of_a", endpoints=["a"])(lambda: "")
    tool(name="of_both", endpoints=["a", "b"])(lambda: "")
    configure(ENDPOINTS={"a": {**A, "OAUTH_RESOURCE": f"{SITE}/a"}, "b": {**B, "OAUTH_RESOURCE": f"{SITE}/b"}}, **OAUTH)
    assert found() == []


@pytest.mark.parametrize(
    ("endpoints", "expected", "facts"),
    [
        ({"a": A, "b": {"PATH": "/mcp/a/"}}, "E025", ("a, b", "same path", "/mcp/a")),
        ({"a": A, "b": {"PATH": "mcp"}}, "E024", ("'b'", "'mcp'", "path")),
        ({"a": A, "B b": B}, "E024", ("named 'B b'",)),
        ({"a": {**A, "QUEUE": "q"}}, "E001", ('MCP["ENDPOINTS"]["a"]', "cannot have QUEUE")),
        ({"a": None}, "E001", ('MCP["ENDPOINTS"]', "dictionaries")),
        ({"a": {**A, "GROUPS": "staff"}}, "E006", ('MCP["ENDPOINTS"]["a"]["GROUPS"]', "'staff'", "list of strings")),
        (
            {"a": {**A, "ALLOWED_ORIGINS": ["http://a/"]}},
            "E007",
            ('MCP["ENDPOINTS"]["a"]["ALLOWED_ORIGINS"]', "http://a/"),
        ),
        ({"a": {**A, "AUTHENTICATOR": "nowhere.to"}}, "E016", ('MCP["ENDPOINTS"]["a"]["AUTHENTICATOR"]', "nowhere.to")),
        ({"a": {**A, "ALLOW_ANONYMOUS": False}}, "W008", ("No client", "endpoint 'a'")),
    ],
)
def test_what_is_wrong_with_an_endpoint_is_found(
    configure: Any, monkeypatch: pytest.MonkeyPatch, endpoints: dict[str, Any], expected: str, facts: tuple[str, ...]
) -> None:
    monkeypatch.setattr(MCPConsumer, "mounted", set(endpoints))
    configure(ENDPOINTS=endpoints)
    [message] = found()
    assert message.id == f"mcp_app.{expected}"
    assert all(fact in message.msg for fact in facts), message.msg


@pytest.mark.parametrize(
    "own",
    [
        {"OAUTH_RESOURCE": SITE},
        {"OAUTH_RESOURCE": SITE.replace("https", "HTTPS")},
        {"OAUTH_RESOURCE": f"{SITE}/b", "OAUTH_AUDIENCES": ["other", SITE]},
    ],
)
def test_endpoints_for_whose_audience_one_token_would_do_are_found(configure: Any, own: dict[str, Any]) -> None:
    configure(ENDPOINTS={"a": {**A, "OAUTH_RESOURCE": SITE}, "b": {**B, **own}}, **OAUTH)
    [message] = found()
    assert message.id == "mcp_app.E025"
    assert all(fact in message.msg for fact in ("a, b", "same audience"))


def test_an_audience_is_each_endpoint_s_own_and_missed_where_only_the_site_has_one(configure: Any) -> None:
    configure(ENDPOINTS={"a": {**A, "OAUTH_RESOURCE": f"{SITE}/a"}, "b": B}, **OAUTH, OAUTH_RESOURCE=SITE)
    [message] = found()
    assert (message.id, 'MCP["ENDPOINTS"]["b"]["OAUTH_RESOURCE"]' in message.msg) == ("mcp_app.E019", True)


def test_a_tool_that_is_offered_nowhere_is_found(configure: Any) -> None:
    tool(name="lost", endpoints=["a", "c"])(lambda: "")
    tool(name="unsaid")(lambda: "")
    configure(ENDPOINTS={"a": A, "b": B})
    lost, unsaid = found()
    assert lost.id == unsaid.id == "mcp_app.W013"
    assert "tool 'lost' is offered at c:" in lost.msg
    assert all(fact in unsaid.msg for fact in ("tool 'unsaid'", "nowhere"))


def test_an_endpoint_that_the_application_does_not_serve_is_found(
    configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(ENDPOINTS={"a": A, "b": B})
    monkeypatch.setattr(MCPConsumer, "mounted", {"a"})
    [message] = found()
    assert message.id == "mcp_app.W033"
    assert "endpoints b." in message.msg


def test_each_is_told_with_a_name_and_an_address_of_its_own(configure: Any) -> None:
    configure(ENDPOINTS={"a": A, "b": {**B, "SERVER_NAME": "own"}}, SERVER_NAME="shop")
    told = welcome.addresses({"a": "http://x/mcp/a", "b": "http://x/mcp/b"}, None, None)
    assert [line.split() for line in told.splitlines()] == [
        ["MCP", "endpoint", "http://x/mcp/a", "a"],
        ["MCP", "endpoint", "http://x/mcp/b", "b"],
    ]
    assert "claude mcp add --transport http shop http://x/mcp/a" in welcome.client_configuration("a", "http://x/mcp/a")
    assert "claude mcp add own -- " in welcome.stdio_configuration("b")
    assert welcome.stdio_configuration("b").endswith("--endpoint=b")
    configure(ENDPOINTS={"a": A, "b": B})
    assert "claude mcp add shop-b " in welcome.stdio_configuration("b")


def test_stdio_of_an_endpoint_that_there_is_not_is_refused_before_anything_is_said(configure: Any) -> None:
    configure(ENDPOINTS={"a": A, "b": B})
    for named in ([], ["--endpoint", "c"]):
        with pytest.raises(CommandError, match="--endpoint: a, b"):
            call_command("mcp", "stdio", *named)
