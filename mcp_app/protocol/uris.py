"""URIs as resources have them: absolute, in the characters of RFC 3986, of bounded length.

Refuses to fetch, resolve or normalise: two URIs are the same resource where their texts are.
"""

import re
from typing import Final, TypeGuard

MAX_URI_CHARS: Final = 2_048
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")


def is_uri(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and len(text) <= MAX_URI_CHARS and _URI.fullmatch(text) is not None
