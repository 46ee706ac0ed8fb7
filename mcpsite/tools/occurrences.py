"""Finds an identifier in Python source, but not in strings and comments.

Before Python 3.12 an f-string is a single token, so it is parsed to find the names in its expressions. Scopes are not
analysed: every occurrence of the name is found.
"""

import ast
import io
import re
import tokenize
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from keyword import iskeyword
from typing import Annotated, Final, Literal

from pydantic import Field

from mcp_app.tools import ToolError

Kind = Literal["definition", "import", "call", "assignment", "reference"]
Identifier = Annotated[str, Field(min_length=1, max_length=200, description="a Python identifier, without dots")]

UNREADABLE: Final = (SyntaxError, ValueError, RecursionError, tokenize.TokenError)
"""The exceptions for a file that is not valid Python source. A decoding error is a `ValueError`."""

_LAYOUT: Final = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING})
_ASSIGNING: Final = re.compile(r":?=|[^=!<>]+=")
_F_STRING: Final = re.compile(r"[rR]?[fF][rR]?['\"]")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name in a text: `line` from 1, `column` from 0 and `length` in characters, and its `kind`."""

    line: int
    column: int
    length: int
    kind: Kind


def check_identifier(name: str) -> str:
    """Return `name` in the form in which Python compares identifiers (NFKC). Raises `ToolError` if it is not one."""
    if not name.isidentifier() or iskeyword(name):
        raise ToolError(f"{name!r} is not a Python identifier. Give one name, without dots, that is not a keyword.")
    return unicodedata.normalize("NFKC", name)


def may_contain(text: str, name: str) -> bool:
    """Whether a text may contain the name. Only an identifier outside of ASCII has several spellings."""
    return name in text or not text.isascii()


def occurrences(text: str, name: str) -> Iterator[Occurrence]:
    """Yield every occurrence of `name` in the source `text`, in order. Raises one of `UNREADABLE`."""
    statement = _Statement()
    before = ""
    tokens = [each for each in tokenize.generate_tokens(io.StringIO(text).readline) if each.type not in _LAYOUT]
    for number, token in enumerate(tokens):
        statement.read(token)
        if token.type == tokenize.NAME and unicodedata.normalize("NFKC", token.string) == name:
            after = tokens[number + 1].string
            yield Occurrence(*token.start, len(token.string), statement.kind(before, after))
        elif token.type == tokenize.STRING and _F_STRING.match(token.string) and name in token.string:
            yield from _in_f_string(token, name)
        before = token.string


class _Statement:
    """The state of the current statement: whether it is an import, and the number of open brackets."""

    def __init__(self) -> None:
        self._begins = True
        self._imports = False
        self._depth = 0

    def read(self, token: tokenize.TokenInfo) -> None:
        if token.type == tokenize.NEWLINE or token.string == ";":
            self._begins, self._imports = True, False
            return
        self._imports = self._imports or token.string == "import" or (self._begins and token.string == "from")
        self._begins = False
        if token.type == tokenize.OP:
            self._depth += (token.string in "([{") - (token.string in ")]}")

    def kind(self, before: str, after: str) -> Kind:
        """Return the kind of a name from the tokens around it."""
        if self._imports:
            return "import"
        if before in ("def", "class"):
            return "definition"
        if after == "(":
            return "call"
        if _ASSIGNING.fullmatch(after) and (self._depth == 0 or after == ":="):
            return "assignment"
        return "reference"


def _in_f_string(token: tokenize.TokenInfo, name: str) -> Iterator[Occurrence]:
    for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", token.string):
        start, end = match.span()
        if _is_name(token.string, start, end):
            above = token.string.count("\n", 0, start)
            column = start - token.string.rfind("\n", 0, start) - 1 if above else token.start[1] + start
            kind: Kind = "call" if token.string[end:].lstrip().startswith("(") else "reference"
            yield Occurrence(token.start[0] + above, column, len(name), kind)


def _is_name(source: str, start: int, end: int) -> bool:
    """Whether a part of an f-string is a name in one of its expressions, and not literal text."""
    other = "x" * len(source)  # longer than any other name in the f-string
    try:
        tree = ast.parse(f"{source[:start]}{other}{source[end:]}", mode="eval")
    except SyntaxError:
        return False
    return any(other in (getattr(node, field, None) for field in ("id", "attr", "arg")) for node in ast.walk(tree))
