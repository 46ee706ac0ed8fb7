"""The new version of the acceptance site whose old one has `narrow_settings`: its catalogue has one more tool."""

from tests.acceptance.narrow_settings import *  # noqa: F403
from tests.acceptance.narrow_settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.acceptance.newer"]
