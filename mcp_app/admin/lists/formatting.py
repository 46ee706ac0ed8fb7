"""Format coloured words and progress bars as HTML. The texts come from `mcp_app.presentation`."""

from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.presentation.formatting import NOTHING, number


def badge(kind: str, label: object) -> SafeString:
    """Return a word with the colour of `kind`, which is a value of `states`."""
    return format_html('<span class="mcp-badge mcp-{}">{}</span>', kind, label)


def progress_bar(done: float | None, total: float | None) -> str:
    """Return a bar with its numbers, or only the numbers if the total is unknown."""
    if done is None:
        return NOTHING
    if total is None or total <= 0:
        return number(done)
    text = f"{number(done)} of {number(total)}"
    # repr: a localised decimal comma is no number to a browser
    return format_html(
        '<span class="mcp-bar"><progress max="{}" value="{}">{}</progress> <span>{}</span></span>',
        repr(total), repr(min(max(done, 0.0), total)), text, text,
    )  # fmt: skip
