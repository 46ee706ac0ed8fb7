"""What a user who is asked for their consent is told of the client's address: whose it is, in words that show that.

Source: 2026-07-28 basic/authorization/security-considerations "Localhost Redirect URI Risks".
"""

from urllib.parse import urlsplit

from django import template

register = template.Library()


@register.filter
def host(uri: str) -> str:
    """Host and port, without what can be put before them to look like others; the scheme where there is no host."""
    parts = urlsplit(uri)
    return parts.netloc.rpartition("@")[2] or f"{parts.scheme}:"


@register.filter
def is_on_this_machine(uri: str) -> bool:
    """Whether any program of the user's own machine may be what answers there."""
    return urlsplit(uri).hostname in (None, "localhost", "127.0.0.1", "::1")
