"""The acceptance tests' site with users: `Authorization: Bearer <username>` names the caller."""

import os

from tests.acceptance.settings import *  # noqa: F403
from tests.acceptance.settings import INSTALLED_APPS, MCP

INSTALLED_APPS = [*INSTALLED_APPS, "tests.acceptance.signing"]
ROOT_URLCONF = "tests.acceptance.signing.urls"
LOGIN_URL = "admin:login"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # slow hashers only slow the tests down
MCP = {
    **MCP,
    "ALLOW_ANONYMOUS": False,
    "AUTHENTICATOR": "tests.acceptance.signing.authentication.named_user",
    "PUBLIC_URL": "https://signing.test",
    "MAX_INPUT_SECONDS": float(os.environ.get("MCP_TEST_MAX_INPUT_SECONDS", "600")),
}
