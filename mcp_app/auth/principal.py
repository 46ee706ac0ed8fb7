"""The principal: who asks, as (issuer, subject, client). Everything a caller may see is looked up through it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `label` is for people; `user_id` is the Django user's key as text, empty without one."""

    issuer: str
    subject: str
    client_id: str
    label: str
    user_id: str = ""

    def owns(self, row: Any) -> bool:
        """Whether `row` (anything with the three columns) belongs to this principal."""
        return (row.issuer, row.subject, row.client_id) == (self.issuer, self.subject, self.client_id)


ANONYMOUS = Principal(issuer="", subject="", client_id="", label="anonymous")
