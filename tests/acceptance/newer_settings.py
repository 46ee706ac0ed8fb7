"""The new version of the acceptance site with one more tool. `narrow_settings` is the old version."""

from tests.acceptance.narrow_settings import *  # noqa: F403
from tests.acceptance.narrow_settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.acceptance.newer"]
