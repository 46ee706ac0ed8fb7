"""Values on their way to the wire: made JSON-ready, with text that every reader takes, within the size limit.

Refuses numbers that JSON has not, and anything larger than `MAX_RESULT_BYTES`: nothing is cut.
Source: 2026-07-28 server/tools "Security Considerations".
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_jsonable_python

from mcp_app.catalogue.errors import InvalidResult, TooLarge
from mcp_app.conf import settings

_UNSENDABLE: Final = re.compile("[\x00\ud800-\udfff]")


def jsonable(value: object) -> Any:
    """`value` as plain JSON. Raises `InvalidResult`."""
    try:
        return to_jsonable_python(value, by_alias=True)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidResult(f"a {type(value).__name__} cannot be written as JSON: {error}") from error


def encode(value: Any) -> str:
    """Plain JSON as text. Raises `InvalidResult`."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidResult(f"it cannot be written as JSON: {error}") from error


def sendable(result: dict[str, Any]) -> dict[str, Any]:
    """`result` with text that every reader takes. Raises `InvalidResult`, and `TooLarge` with words for the client."""
    text = encode(result)
    if "\\u0000" in text or _UNSENDABLE.search(text):
        result = _clean(result)
        text = encode(result)
    if (size := len(text.encode())) > settings.MAX_RESULT_BYTES:
        raise TooLarge(
            f"The result is larger than this server sends: {size} bytes, the limit is "
            f"{settings.MAX_RESULT_BYTES} bytes. Ask for less."
        )
    return result


def _clean(value: Any) -> Any:
    """`value` with U+FFFD for lone surrogates and NUL, which databases and UTF-8 refuse."""
    if isinstance(value, str):
        return _UNSENDABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_clean(key): _clean(member) for key, member in value.items()}
    if isinstance(value, Sequence):
        return [_clean(item) for item in value]
    return value
