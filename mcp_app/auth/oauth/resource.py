"""The protected resource that an endpoint is: its URI, authorization servers and metadata.

Everything comes from the settings and nothing from requests. Source: RFC 9728, 2026-07-28
basic/authorization.
"""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured

from mcp_app.conf import server_name, settings

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The resource that an endpoint's `OAUTH_RESOURCE` names."""

    uri: str
    name: str
    """For display."""
    issuers: tuple[str, ...]
    """Its authorization servers, at least one, as their tokens name them in `iss`."""
    required_scopes: tuple[str, ...]
    audiences: tuple[str, ...]
    """A token for this resource has one of these in `aud`."""

    @property
    def metadata_path(self) -> str:
        """The path of the metadata (RFC 9728 §3.1).

        It is the well-known path, followed by the resource's own.
        """
        return WELL_KNOWN + urlsplit(self.uri).path.rstrip("/")

    @property
    def metadata_url(self) -> str:
        parts = urlsplit(self.uri)
        return urlunsplit((parts.scheme, parts.netloc, self.metadata_path, "", ""))

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata document (RFC 9728 §2)."""
        document: dict[str, Any] = {
            "resource": self.uri,
            "authorization_servers": list(self.issuers),
            "bearer_methods_supported": ["header"],
            "resource_name": self.name,
        }
        if self.required_scopes:
            document["scopes_supported"] = list(self.required_scopes)
        return document

    def accepts_audience(self, audience: object) -> bool:
        """Return whether a token with this `aud`, a string or list, is for this resource."""
        named = [audience] if isinstance(audience, str) else audience
        if not isinstance(named, list):
            return False
        names = {canonical_uri(name) for name in self.audiences}
        return any(isinstance(name, str) and canonical_uri(name) in names for name in named)


def protected_resource(endpoint: str) -> ProtectedResource | None:
    """Return the resource that the settings describe for an endpoint, or `None`."""
    own = settings.at(endpoint)
    if own.OAUTH_RESOURCE is None or not own.OAUTH_ISSUERS:
        return None
    return ProtectedResource(
        own.OAUTH_RESOURCE,
        name=own.SERVER_TITLE or server_name(endpoint),
        issuers=tuple(own.OAUTH_ISSUERS),
        required_scopes=tuple(own.OAUTH_REQUIRED_SCOPES),
        audiences=tuple(own.OAUTH_AUDIENCES) or (own.OAUTH_RESOURCE,),
    )


def required_resource(endpoint: str) -> ProtectedResource:
    """Return the resource of an endpoint. Raises `ImproperlyConfigured` if there is none."""
    resource = protected_resource(endpoint)
    if resource is None:
        raise ImproperlyConfigured('OAuth needs MCP["OAUTH_RESOURCE"] and MCP["OAUTH_ISSUERS"].')
    return resource


def canonical_uri(name: str) -> str:
    """Return a URI with its scheme and host in lower case, and without a slash for an empty path.

    URIs of the same resource become equal (RFC 3986 §6.2).
    """
    scheme, separator, rest = name.partition("://")
    if not separator:
        return name
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{host.lower()}{slash if path else ''}{path}"
