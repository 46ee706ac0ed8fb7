"""What a site's authenticator is given of a request: its header fields, where it comes from, where it goes.

Refuses to be changed, and to show a credential: it prints names of fields, never their values.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from django.utils.datastructures import CaseInsensitiveMapping

from mcp_app.conf import DEFAULT_ENDPOINT


class HeaderFields(CaseInsensitiveMapping[str]):
    """The header fields by name, in any case. One that was sent more than once has its values joined by `", "`, cookies
    by `"; "` (RFC 9113 §8.2.3)."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = raw

    @cached_property
    def _store(self) -> dict[str, tuple[str, str]]:  # type: ignore[override] # its stubs have a plain attribute
        """Made where somebody looks: most do not."""
        fields: dict[str, str] = {}
        for name, value in self._raw:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
            separator = "; " if key == "cookie" else ", "
            fields[key] = f"{fields[key]}{separator}{text}" if key in fields else text
        return {key: (key, text) for key, text in fields.items()}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self)}>"


@dataclass(frozen=True, slots=True)
class HTTPConnection:
    """One HTTP request as far as it says who asks."""

    headers: HeaderFields
    remote_address: str
    """The peer's IP address; empty where the server does not know it. Behind a proxy it is the proxy's."""
    path: str
    endpoint: str = DEFAULT_ENDPOINT
    """The endpoint's name."""
    method: str = "POST"
    scheme: str = "https"
    """As the server was asked; behind a proxy it is the proxy's."""
