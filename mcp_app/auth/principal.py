"""The principal: who asks, as (issuer, subject, client), and at which endpoint.

Everything a caller may see is looked up through it, so that nothing of one endpoint is found at another.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from mcp_app.conf import DEFAULT_ENDPOINT

COLUMNS: Final = ("issuer", "subject", "client_id", "endpoint")
"""Of a row that belongs to a principal."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `label` is for people; `user_id` is the Django user's key as text, empty without one."""

    issuer: str
    subject: str
    client_id: str
    label: str
    user_id: str = ""
    scopes: frozenset[str] | None = field(default=None, compare=False)
    """What its token was given for; None: no token limits it."""
    endpoint: str = DEFAULT_ENDPOINT
    """The name of the endpoint, whatever an authenticator says."""

    @classmethod
    def of(cls, request: Any) -> "Principal":
        """Who asked, by the row of their request."""
        scopes = None if request.scopes is None else frozenset(request.scopes)
        return cls(
            request.issuer,
            request.subject,
            request.client_id,
            request.principal_label,
            request.user_id,
            scopes,
            request.endpoint,
        )

    @property
    def shows_nothing(self) -> bool:
        """Whether it is everybody: who has shown no credential."""
        return self.identity == ANONYMOUS.identity

    def owns(self, row: Any) -> bool:
        """Whether `row` (anything with `COLUMNS`) belongs to this principal."""
        return key_of(row) == key_of(self)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a row that belongs to this principal: to find it, or to make it."""
        return {**self.identity, "endpoint": self.endpoint}

    @property
    def identity(self) -> dict[str, str]:
        """The columns that say who it is, at whatever endpoint."""
        return {"issuer": self.issuer, "subject": self.subject, "client_id": self.client_id}


def key_of(owner: Any) -> tuple[str, ...]:
    """What a principal, or a row that belongs to one, has in `COLUMNS`."""
    return tuple(getattr(owner, column) for column in COLUMNS)


ANONYMOUS = Principal(issuer="", subject="", client_id="", label="anonymous", scopes=frozenset())
