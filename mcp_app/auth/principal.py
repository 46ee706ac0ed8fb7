"""The principal: who asks, as (issuer, subject, client). Everything a caller may see is looked up through it."""

from dataclasses import dataclass, field
from typing import Any


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

    @classmethod
    def of(cls, request: Any) -> "Principal":
        """Who asked, by the row of their request."""
        scopes = None if request.scopes is None else frozenset(request.scopes)
        return cls(request.issuer, request.subject, request.client_id, request.principal_label, request.user_id, scopes)

    def owns(self, row: Any) -> bool:
        """Whether `row` (anything with the three columns) belongs to this principal."""
        return (row.issuer, row.subject, row.client_id) == (self.issuer, self.subject, self.client_id)

    @property
    def columns(self) -> dict[str, Any]:
        """The three columns of a row that belongs to this principal: to find it, or to make it."""
        return {"issuer": self.issuer, "subject": self.subject, "client_id": self.client_id}


ANONYMOUS = Principal(issuer="", subject="", client_id="", label="anonymous", scopes=frozenset())
