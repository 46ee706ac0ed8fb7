"""The protected resource that an endpoint is: its URI, its authorization servers, and where it says so.

All of it is the settings'; no request has a part in it. Source: RFC 9728, 2026-07-28 basic/authorization.
"""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured

from mcp_app.conf import settings

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """What an endpoint's `OAUTH_RESOURCE` names."""

    uri: str
    name: str
    """For people."""
    issuers: tuple[str, ...]
    """Of its authorization servers, at least one, as their tokens have them in `iss`."""
    required_scopes: tuple[str, ...]
    audiences: tuple[str, ...]
    """What a token for it has in `aud`, one of them."""

    @property
    def metadata_path(self) -> str:
        """Where its metadata is served: the well-known path, put in before the resource's own (RFC 9728 §3.1)."""
        return WELL_KNOWN + urlsplit(self.uri).path.rstrip("/")

    @property
    def metadata_url(self) -> str:
        parts = urlsplit(self.uri)
        return urlunsplit((parts.scheme, parts.netloc, self.metadata_path, "", ""))

    @property
    def metadata(self) -> dict[str, Any]:
        """The document (RFC 9728 §2)."""
        document: dict[str, Any] = {
            "resource": self.uri,
            "authorization_servers": list(self.issuers),
            "bearer_methods_supported": ["header"],
            "resource_name": self.name,
        }
        if self.required_scopes:
            document["scopes_supported"] = list(self.required_scopes)
        return document

    def is_named_by(self, audience: object) -> bool:
        """Whether a token with this `aud`, a string or a list of them, was issued for this resource."""
        named = [audience] if isinstance(audience, str) else audience
        if not isinstance(named, list):
            return False
        names = {canonical(name) for name in self.audiences}
        return any(isinstance(name, str) and canonical(name) in names for name in named)


def protected_resource(endpoint: str) -> ProtectedResource | None:
    """The one that the settings describe for an endpoint; None where they describe none."""
    own = settings.at(endpoint)
    if own.OAUTH_RESOURCE is None or not own.OAUTH_ISSUERS:
        return None
    return ProtectedResource(
        own.OAUTH_RESOURCE,
        name=own.SERVER_TITLE or own.SERVER_NAME,
        issuers=tuple(own.OAUTH_ISSUERS),
        required_scopes=tuple(own.OAUTH_REQUIRED_SCOPES),
        audiences=tuple(own.OAUTH_AUDIENCES) or (own.OAUTH_RESOURCE,),
    )


def required_resource(endpoint: str) -> ProtectedResource:
    """The same, for who cannot do without. Raises ImproperlyConfigured."""
    resource = protected_resource(endpoint)
    if resource is None:
        raise ImproperlyConfigured('OAuth takes MCP["OAUTH_RESOURCE"] and MCP["OAUTH_ISSUERS"].')
    return resource


def canonical(name: str) -> str:
    """The same for what is the same resource: scheme and host in any case, no slash for no path (RFC 3986 §6.2)."""
    scheme, separator, rest = name.partition("://")
    if not separator:
        return name
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{host.lower()}{slash if path else ''}{path}"
