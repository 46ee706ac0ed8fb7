"""What the admin shows in markup of its own: a word with a colour, a bar. The words are `mcp_app.telling`'s."""

from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.telling.formatting import NOTHING, number


def badge(kind: str, label: object) -> SafeString:
    """A word with a colour of its own; `kind` is a value of `states`."""
    return format_html('<span class="mcp-badge mcp-{}">{}</span>', kind, label)


def progress_bar(done: float | None, total: float | None) -> str:
    """A bar and its numbers; numbers alone where the total is unknown."""
    if done is None:
        return NOTHING
    if total is None or total <= 0:
        return number(done)
    told = f"{number(done)} of {number(total)}"
    # repr: a localised decimal comma is no number to a browser
    return format_html(
        '<span class="mcp-bar"><progress max="{}" value="{}">{}</progress> <span>{}</span></span>',
        repr(total), repr(min(max(done, 0.0), total)), told, told,
    )  # fmt: skip
