"""What a user who is asked for their consent is told of the client's address: whose it is, in words that show that.

Where the client could call here; what else the site's authorization server is for has the page that it would have.

Source: 2026-07-28 basic/authorization/security-considerations "Localhost Redirect URI Risks".
"""

from urllib.parse import urlsplit

from django import template
from django.forms import Form

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


@register.filter
def is_for_no_endpoint(form: Form) -> bool:
    """Whether what is asked for in the toolkit's form can let its client in at no endpoint of this site. (A template's
    `if` takes an error for a no.)"""
    from mcp_app.auth.oauth import toolkit  # of an extra; Django imports this module wherever there are templates

    scope, resources = (str(form[name].value() or "").split() for name in ("scope", "resource"))
    return not toolkit.could_open(scope, resources)
