"""A token of django-oauth-toolkit is accepted if it is in force, for this endpoint, and has a user."""

import logging
import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application, set_token_value

from mcp_app.auth.authentication import HeaderFields, HTTPConnection
from mcp_app.auth.oauth.toolkit import bearer
from mcp_app.auth.principal import Principal
from tests.auth.asking import ask
from tests.auth.own_server import page_headers
from tests.support.asgi_client import message, post
from tests.support.worker import in_thread

pytestmark = [
    pytest.mark.usefixtures("_own_server"),
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.fault("G3"),
]

ORIGIN = "https://mcp.example.com"
RESOURCE = f"{ORIGIN}/mcp"
Change = Callable[[AccessToken], object]


@pytest.fixture
def _own_server(settings: Any, configure: Any) -> None:
    values = page_headers(ORIGIN)
    settings.OAUTH2_PROVIDER = values["OAUTH2_PROVIDER"]
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # of the client's secret
    configure(**values["MCP"], ALLOWED_HOSTS=["testserver"], DRAIN_SECONDS=0.1)


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


def issued(user: User | None, **changes: Any) -> tuple[str, AccessToken]:
    """Return a valid token as its client has it, and its row, with changes."""
    editor = Application.objects.create(client_id=secrets.token_hex(4), name="Editor", user=None)
    values = {"resource": [RESOURCE], "scope": "mcp", "application": editor, **changes}
    text, in_an_hour = secrets.token_urlsafe(20), timezone.now() + timedelta(hours=1)
    row = AccessToken(user=user, **{"expires": in_an_hour, **values})
    set_token_value(row, text)
    row.save()
    return text, row


def test_a_token_is_its_users_with_its_client_and_scopes(ada: User) -> None:
    token, row = issued(ada, scope="mcp files:write no-more")
    principal = bearer(HTTPConnection(HeaderFields([(b"authorization", f"Bearer {token}".encode())]), "", "/mcp"))
    assert principal == Principal(ORIGIN, str(ada.pk), row.application.client_id, "ada", user_id=str(ada.pk))
    assert principal is not None
    assert principal.scopes == {"mcp", "files:write"}
    assert ask(token).status == 200


@pytest.mark.parametrize("resource", [[f"{ORIGIN}/other", RESOURCE], ["HTTPS://MCP.example.com/mcp"]])
def test_a_token_may_be_for_other_resources_besides(ada: User, resource: list[str]) -> None:
    assert ask(issued(ada, resource=resource)[0]).status == 200


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"resource": []}, "another audience"),
        ({"resource": [f"{ORIGIN}/other"]}, "another resource"),
        ({"resource": ["https://example.org/mcp"]}, "another resource"),
        # The toolkit accepts a prefix of a URI for everything below it. Here a resource is one
        # endpoint.
        ({"resource": [ORIGIN]}, "another audience"),
        ({"expires": timezone.now() - timedelta(seconds=1)}, "has expired"),
        # The toolkit got the token from another server, so the issuer is not this site.
        ({"application": None}, "no client"),
    ],
    ids=["no resource", "another path", "another host", "all of a host", "expired", "no client"],
)
def test_a_token_that_is_not_for_this_endpoint_or_not_in_force_is_refused(
    ada: User, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], why: str
) -> None:
    caplog.set_level(logging.INFO, "mcp_app.auth.oauth")
    token, _ = issued(ada, **changes)
    reply = ask(token)
    assert (reply.status, reply.parameters["error"]) == (401, "invalid_token")
    assert why in caplog.text
    assert token not in f"{caplog.text}{reply}"


def test_a_token_that_no_user_has_agreed_to_is_refused() -> None:
    """Every client that registers itself could get such a token."""
    assert ask(issued(None)[0]).status == 401


@pytest.mark.parametrize("token", ["unknown", "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.", f"mcp_{'0' * 12}_{'a' * 43}"])
def test_what_the_site_has_not_issued_is_refused(token: str) -> None:
    assert ask(token).parameters["error"] == "invalid_token"


@pytest.mark.parametrize(
    "end",
    [
        lambda row: row.revoke(),
        lambda row: User.objects.update(is_active=False),
        lambda row: row.user.delete(),
        lambda row: row.application.delete(),
    ],
    ids=["revoked", "user not active", "user deleted", "client deleted"],
)
def test_what_ends_a_token_ends_it_at_once(ada: User, end: Change) -> None:
    token, row = issued(ada)
    assert ask(token).status == 200
    end(row)
    assert ask(token).parameters["error"] == "invalid_token"


@pytest.mark.parametrize("scope", ["", "files:write", "mcp:more"])
def test_a_token_without_the_scope_of_the_endpoint_is_told_to_ask_for_it(ada: User, scope: str) -> None:
    reply = ask(issued(ada, scope=scope)[0])
    assert (reply.status, reply.parameters["error"], reply.parameters["scope"]) == (403, "insufficient_scope", "mcp")


@pytest.mark.fault("E8")
async def test_E8_the_stream_of_a_token_that_was_revoked_ends(ada: User, configure: Any) -> None:
    configure(CONFIRM_AFTER=0.1)
    token, row = await in_thread(issued, ada)
    client = await post(
        message("subscriptions/listen", notifications={"toolsListChanged": True}),
        headers={"Authorization": f"Bearer {token}"},
    )
    await client.head()
    assert (await client.next_message())["method"] == "notifications/subscriptions/acknowledged"
    await in_thread(row.revoke)
    assert [message["result"]["resultType"] for message in await client.rest()] == ["complete"]
