"""Settings that may differ between the endpoints of a site (`MCP["ENDPOINTS"]`).

All other settings apply to the whole site. To set one of those for an endpoint is an error.
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
"""The settings that an endpoint may have of its own."""
NOT_SHARED: Final = frozenset({"OAUTH_RESOURCE", "OAUTH_AUDIENCES"})
"""Never inherited from the site, because a token for one endpoint must not be valid at another."""


class EndpointSettings:
    """Return the endpoint's value as `settings.at(endpoint).NAME`, or the site's if it has none.

    `unshared`: the object that is read instead of the site for the settings in `NOT_SHARED`.
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
    """Check the names in `MCP["ENDPOINTS"]` and in its values.

    Raises `ImproperlyConfigured` unless each endpoint has settings of `PER_ENDPOINT` only.
    """
    if not isinstance(endpoints, dict) or not all(isinstance(own, dict) for own in endpoints.values()):
        raise ImproperlyConfigured('MCP["ENDPOINTS"] must be a dictionary from names to dictionaries.')
    for endpoint, own in endpoints.items():
        if unknown := sorted(set(own) - PER_ENDPOINT):
            raise ImproperlyConfigured(
                f'MCP["ENDPOINTS"]["{endpoint}"] cannot have {", ".join(unknown)} of its own; '
                f"it may have {', '.join(sorted(PER_ENDPOINT))}."
            )
