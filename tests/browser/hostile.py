"""Texts that would harm a page that does not escape them."""

from typing import Final

INJECTED: Final = "injected"
"""The id of every element that a hostile text tries to add."""
RIGHT_TO_LEFT: Final = "\u202e"
MARKUP: Final = (
    f"</pre></textarea></script><script>alert(1)</script><img id={INJECTED} src=x onerror=alert(2)>"
    f"<form id={INJECTED}></form><!--'\"{{{{ 7|add:7 }}}}"
)
TEXT: Final = f"{MARKUP} {RIGHT_TO_LEFT}exe.txt"
