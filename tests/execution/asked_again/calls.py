"""Calls that wait in a queue while the caller's access changes, and their ends."""

import secrets
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.module_loading import import_string
from oauth2_provider.models import AccessToken, Application, RefreshToken, set_token_value
from pydantic import BaseModel

from mcp_app import conf
from mcp_app.auth import tokens
from mcp_app.auth.authentication import HeaderFields, HTTPConnection
from mcp_app.auth.principal import Principal
from mcp_app.lifecycle import publishing
from mcp_app.models import Request, Token
from mcp_app.states import Status
from mcp_app.testing.worker import InProcessWorker
from tests.support import rows

TOKENS = "mcp_app.auth.tokens.bearer"


ORIGIN = "https://mcp.example.com"


RESOURCE = f"{ORIGIN}/mcp"


BAD, GONE, SHUT, NO_ENDPOINT = "have expired", "no longer active", "not have access", "no longer exists"
NO_INK, NO_MCP, NO_TOOL = "scope ink", "scope mcp", "Unknown tool: internal"
"""Words that occur in one error of a refused call each."""


ran: list[str] = []


class Ready(BaseModel):
    word: str


def let_in(token: str, endpoint: str = "default") -> Principal:
    """Return the principal that an endpoint's authenticator accepts for this token."""
    fields = HeaderFields([(b"authorization", f"Bearer {token}".encode())])
    asked = import_string(conf.settings.at(endpoint).AUTHENTICATOR)
    return replace(asked(HTTPConnection(fields, "192.0.2.1", "/mcp", endpoint)), endpoint=endpoint)


def queued(principal: Principal, name: str = "plain", **changes: Any) -> Request:
    asking = {"elicitation": {"form": {}}}
    row = rows.queued(tool=name, arguments={}, principal=principal, client_capabilities=asking, **changes)
    publishing.publish(row)
    return row


def run(at_work: InProcessWorker, row: Request) -> tuple[int, str] | None:
    """Run the queued calls in the worker.

    Return the code of the caller's error and the words by which it is known, or `None` if the tool ran.
    """
    at_work.run_queued()
    row.refresh_from_db()
    if row.status == Status.COMPLETED:
        assert ran.pop() == row.tool
        return None
    assert (row.status, ran) == (Status.FAILED, [])
    assert row.error is not None
    known = (BAD, GONE, SHUT, NO_ENDPOINT, NO_INK, NO_MCP, NO_TOOL)
    [found] = [phrase for phrase in known if phrase in row.error["message"]]
    return row.error["code"], found


def lose_a_scope() -> None:
    Token.objects.update(scopes=["paper"])


def expire() -> None:
    Token.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def revoke() -> None:
    tokens.revoke(Token.objects.values_list("prefix", flat=True), by="root")


class Grant:
    """A user's grant to a client, at a site that is its own authorization server."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.client = Application.objects.create(client_id=f"client-{uuid4().hex}", name="Editor", user=None)

    def issue(self, scope: str = "mcp ink", resource: str = RESOURCE, *, renewable: bool = True) -> str:
        text, in_an_hour = secrets.token_urlsafe(20), timezone.now() + timedelta(hours=1)
        row = AccessToken(user=self.user, application=self.client, scope=scope, resource=[resource], expires=in_an_hour)
        set_token_value(row, text)
        row.save()
        if renewable:
            renews = RefreshToken(user=self.user, application=self.client, access_token=row, resource=[resource])
            set_token_value(renews, secrets.token_urlsafe(20))
            renews.save()
        return text

    @property
    def newest(self) -> AccessToken:
        found: AccessToken = AccessToken.objects.filter(application=self.client).latest("pk")
        return found

    def renew(self, **changes: Any) -> None:
        """Refresh the token, as the client does again and again."""
        self.newest.refresh_token.revoke()
        self.issue(**changes)

    def age(self, **by: float) -> None:
        AccessToken.objects.update(expires=timezone.now() - timedelta(**by))


def words(result: Any) -> str:
    return str(result["content"][0]["text"])
