"""Parses URIs and URI templates of level 1 (RFC 3986, RFC 6570), and matches URIs in linear time.

A variable matches at least one character and ends before the next `/`, `?` or `#`. Higher levels
are refused, and so are two variables with nothing between them. Under `file:`, values that could
leave their folder do not match. Source: 2026-07-28 server/resources "Resource Templates", "Security
Considerations".
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from mcp_app.catalogue.declaration import UnusableOptionError
from mcp_app.protocol.formats import is_uri

_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_DELIMITERS: Final = frozenset("/?#")


@dataclass(frozen=True, slots=True)
class URITemplate:
    """A parsed template. `literals` are the texts before, between and after the variables."""

    text: str
    literals: tuple[str, ...]
    variables: tuple[str, ...]

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values of the variables in `uri`, or `None` if it does not match.

        The first place at which a literal fits is the right one: a variable that ended later would
        contain more delimiters, never fewer.
        """
        first, *others = self.literals
        if not uri.startswith(first):
            return None
        position, values = len(first), list[str]()
        for literal in others[:-1]:
            end = uri.find(literal, position + 1)
            if end < 0:
                return None
            values.append(uri[position:end])
            position = end + len(literal)
        last = others[-1]
        values.append(uri[position : len(uri) - len(last)])
        if not uri.endswith(last) or not all(map(_is_value, values)):
            return None
        return self._decode(values)

    def _decode(self, values: list[str]) -> dict[str, str] | None:
        try:
            decoded = [unquote_to_bytes(value).decode() for value in values]
        except UnicodeDecodeError:
            return None
        if any("\x00" in value for value in decoded):
            return None
        if self.text.lower().startswith("file:") and any(map(_leaves_folder, decoded)):
            return None
        return dict(zip(self.variables, decoded, strict=True))


def parse(text: str) -> URITemplate | None:
    """Parse a template. Return `None` for a URI without variables. Raises `UnusableOptionError`."""
    literals, variables = tuple(_VARIABLE.split(text)[::2]), tuple(_VARIABLE.findall(text))
    if not is_uri(_VARIABLE.sub("x", text)):
        raise UnusableOptionError(
            "it is neither a URI (RFC 3986) nor one with variables such as {name}; percent-encode other characters"
        )
    if not variables:
        return None
    if not is_uri(f"{literals[0]}x"):
        raise UnusableOptionError("the scheme of a template cannot have variables")
    if len(set(variables)) < len(variables):
        raise UnusableOptionError("each variable may appear once in a template")
    if any(not literal for literal in literals[1:-1]):
        raise UnusableOptionError("there must be some text between two variables")
    return URITemplate(text, literals, variables)


def _is_value(text: str) -> bool:
    return bool(text) and _DELIMITERS.isdisjoint(text)


def _leaves_folder(value: str) -> bool:
    return value in (".", "..") or "/" in value or "\\" in value
