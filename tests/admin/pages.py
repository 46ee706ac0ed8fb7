"""The visible text of a page."""

import html
import re
from typing import Any


def words(response: Any) -> str:
    """Return the visible text of a page, without tags, and with single spaces as white space."""
    assert response.status_code == 200
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", response.content.decode(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())
