"""Members authenticate with a key. The table stores its digest."""

from hashlib import sha256

from accounts.models import Key, Member
from mcp_app.auth.authentication import HTTPConnection


def member_of(connection: HTTPConnection) -> Member | None:
    digest = sha256(connection.headers.get("X-Api-Key", "").encode()).hexdigest()
    key = Key.objects.filter(digest=digest).select_related("member").first()
    return key.member if key else None
