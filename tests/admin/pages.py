"""What people find on a page."""

import html
import re
from typing import Any


def words(response: Any) -> str:
    """What a person reads: the page without its tags, white space made single spaces."""
    assert response.status_code == 200
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", response.content.decode(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())
