"""Describes a client's redirect address to a user who is asked for consent.

Only for clients that could call an endpoint of this site. Other clients get the toolkit's own page.

Source: 2026-07-28 basic/authorization/security-considerations "Localhost Redirect URI Risks".
"""

from urllib.parse import urlsplit

from django import template
from django.forms import Form

register = template.Library()


@register.filter
def host(uri: str) -> str:
    """Return the host and port without user information, which could imitate another host, or the scheme."""
    parts = urlsplit(uri)
    return parts.netloc.rpartition("@")[2] or f"{parts.scheme}:"


@register.filter
def is_on_this_machine(uri: str) -> bool:
    """Whether any program on the user's own machine could answer at this address."""
    return urlsplit(uri).hostname in (None, "localhost", "127.0.0.1", "::1")


@register.filter
def is_for_no_endpoint(form: Form) -> bool:
    """Whether the access that the client asks for is of no use at any endpoint of this site.

    (In a template, `if` treats an error as false.)
    """
    from mcp_app.auth.oauth import toolkit  # of an extra; Django imports this module wherever there are templates

    scope, resources = (str(form[name].value() or "").split() for name in ("scope", "resource"))
    return not toolkit.may_grant_access(scope, resources)
