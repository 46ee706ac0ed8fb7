"""Requests to a protected endpoint, and the challenges in its rejections."""

import re
from dataclasses import dataclass
from typing import Any

from tests.support.asgi_client import message, post, run


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any
    challenge: str
    """`WWW-Authenticate`, or an empty string without it."""

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the challenge."""
        assert self.challenge.startswith("Bearer ")
        return dict(re.findall(r'([a-z_]+)="([^"]*)"', self.challenge))


def ask(
    token: str | None = None, *, authorization: str | None = None, fields: dict[str, str] | None = None, query: str = ""
) -> Reply:
    """List the tools, with a token or another `Authorization`, and optional header fields."""
    shown = f"Bearer {token}" if token is not None else authorization
    headers = {**(fields or {}), **({} if shown is None else {"Authorization": shown})}
    replies: list[Reply] = []

    async def scenario() -> None:
        client = await post(message("tools/list"), headers=headers, query=query)
        body = await client.json()
        replies.append(Reply(client.status, body, client.headers.get("www-authenticate", "")))

    run(scenario())
    return replies[0]
