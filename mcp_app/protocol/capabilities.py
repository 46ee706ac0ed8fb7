"""What a client declares that it can be asked, held against what is needed of it.

Source: 2026-07-28 client/elicitation "Capabilities", basic/index "Error Codes" (-32021).
"""

from collections.abc import Mapping
from typing import Any


def declared(required: Mapping[str, Any], capabilities: Mapping[str, Any]) -> bool:
    """Whether `capabilities`, a ClientCapabilities object, holds everything that `required`, another, names.

    Null is absent: libraries write it for what a client has not.
    """
    elicitation = capabilities.get("elicitation")
    if elicitation is not None and not elicitation:
        capabilities = {**capabilities, "elicitation": {"form": {}}}
    return _holds(capabilities, required)


def _holds(capabilities: Mapping[str, Any], required: Mapping[str, Any]) -> bool:
    return all(
        capabilities.get(name) is not None
        and (not isinstance(wanted, Mapping) or _holds(_as_mapping(capabilities[name]), wanted))
        for name, wanted in required.items()
    )


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
