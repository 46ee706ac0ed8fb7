"""Make a page that tries a tool call it only once, however often its button is pressed.

The form has an id of its own. The request's id is derived from it, the tool and the arguments, so that repeated
submissions have the same row, even at the same moment. Other arguments, or a reloaded page, make another call. A form
id is rejected unless this site gave it to this user for this tool, so users cannot choose the id of a request.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

from django.core import signing
from django.core.signing import BadSignature

PAGE: Final = "_page"
"""The field of the form."""
_SALT: Final = "mcp_app.admin.tools.try_tool"


def page(user_id: Any, tool: str) -> str:
    """Return the id of a form that is shown now."""
    return signing.dumps([str(uuid4()), str(user_id), tool], salt=_SALT)


def request_id(named: str, user_id: Any, tool: str, endpoint: str, arguments: Mapping[str, Any]) -> UUID | None:
    """Return the request's id for these arguments, or `None` if this user was not shown the page."""
    try:
        shown, *rest = signing.loads(named, salt=_SALT)
    except BadSignature:
        return None
    if rest != [str(user_id), tool]:
        return None
    return uuid5(UUID(shown), json.dumps([endpoint, arguments], sort_keys=True))
