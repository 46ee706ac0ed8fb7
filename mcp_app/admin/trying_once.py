"""What makes a page that tries a tool call it once, however often its button is pressed: its form has a name.

The id of the request is made of that name and of what is called with what: the same sent twice is the same row, also at
one moment. Filled in otherwise, or on a page that was loaded anew, it is another call. Refuses what this site did not
give to this user for this tool: nobody chooses the id of a request.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

from django.core import signing
from django.core.signing import BadSignature

PAGE: Final = "_page"
"""The field of the form."""
_SALT: Final = "mcp_app.admin.trying"


def page(user_id: Any, tool: str) -> str:
    """A page that is shown now, as its form names it."""
    return signing.dumps([str(uuid4()), str(user_id), tool], salt=_SALT)


def request_id(named: str, user_id: Any, tool: str, endpoint: str, arguments: Mapping[str, Any]) -> UUID | None:
    """Of the request that this page makes of these arguments; None where the page was not shown to this user."""
    try:
        shown, *rest = signing.loads(named, salt=_SALT)
    except BadSignature:
        return None
    if rest != [str(user_id), tool]:
        return None
    return uuid5(UUID(shown), json.dumps([endpoint, arguments], sort_keys=True))
