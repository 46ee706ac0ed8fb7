"""The acceptance tests' site with tools to be watched, and with every page under a strict content security policy."""

from tests.acceptance.settings import *  # noqa: F403
from tests.acceptance.settings import INSTALLED_APPS, MCP, MIDDLEWARE

INSTALLED_APPS = [*INSTALLED_APPS, "tests.browser"]
MIDDLEWARE = ["tests.browser.csp.strict_csp", *MIDDLEWARE]
MCP = {**MCP, "AUTHENTICATOR": "tests.browser.authentication.caller"}  # who has none is anonymous, as there
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # slow ones are of no use here
