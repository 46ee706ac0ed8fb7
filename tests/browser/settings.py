"""The acceptance tests' site with this package's tools, and a strict content security policy on every page."""

from tests.acceptance.settings import *  # noqa: F403
from tests.acceptance.settings import INSTALLED_APPS, MCP, MIDDLEWARE

INSTALLED_APPS = [*INSTALLED_APPS, "tests.browser"]
MIDDLEWARE = ["tests.browser.csp.strict_csp", *MIDDLEWARE]
MCP = {**MCP, "AUTHENTICATOR": "tests.browser.authentication.caller"}  # without a credential: anonymous, as there
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast
