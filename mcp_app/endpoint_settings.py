"""What one of several endpoints may have otherwise than the site, in `MCP["ENDPOINTS"]`, and how that is read.

Refuses a setting that is the whole site's.
"""

from collections.abc import Mapping
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured

PER_ENDPOINT: Final = frozenset(
    {
        "PATH",
        "SERVER_NAME",
        "SERVER_TITLE",
        "SERVER_ICONS",
        "INSTRUCTIONS",
        "ALLOWED_ORIGINS",
        "ALLOW_ANONYMOUS",
        "AUTHENTICATOR",
        "PERMISSIONS",
        "GROUPS",
        "OAUTH_RESOURCE",
        "OAUTH_ISSUERS",
        "OAUTH_REQUIRED_SCOPES",
        "OAUTH_AUDIENCES",
        "OAUTH_USER",
        "OAUTH_JWKS_URLS",
        "OAUTH_INTROSPECTION_URL",
        "OAUTH_CLIENT_ID",
        "OAUTH_CLIENT_SECRET",
    }
)
"""What one of several endpoints may have of its own."""
NOT_SHARED: Final = frozenset({"OAUTH_RESOURCE", "OAUTH_AUDIENCES"})
"""What it takes from nowhere else: a token for one endpoint must open no other."""


class EndpointSettings:
    """`settings.at(endpoint).NAME`: the endpoint's value, or the site's.

    `unshared`: where it has what is `NOT_SHARED`, if not of its own.
    """

    def __init__(self, site: Any, own: Mapping[str, Any], *, unshared: Any) -> None:
        self._site = site
        self._own = own
        self._unshared = unshared

    def __getattr__(self, name: str) -> Any:
        if name in self._own:
            value = self._own[name]
        else:
            value = getattr(self._unshared if name in NOT_SHARED else self._site, name)
        self.__dict__[name] = value
        return value


def check_names(endpoints: Any) -> None:
    """That `MCP["ENDPOINTS"]` has nothing else. Raises ImproperlyConfigured."""
    if not isinstance(endpoints, dict) or not all(isinstance(own, dict) for own in endpoints.values()):
        raise ImproperlyConfigured('MCP["ENDPOINTS"] is no dictionary from names to dictionaries.')
    for endpoint, own in endpoints.items():
        if unknown := sorted(set(own) - PER_ENDPOINT):
            raise ImproperlyConfigured(
                f'MCP["ENDPOINTS"]["{endpoint}"] cannot have {", ".join(unknown)} of its own; '
                f"it may have {', '.join(sorted(PER_ENDPOINT))}."
            )
