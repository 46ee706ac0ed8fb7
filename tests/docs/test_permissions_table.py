"""docs/reference/permissions.md lists the permissions of the models that the admin shows."""

import re

from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_permission_codename

from tests.docs.pages import DOCS


def test_the_table_has_every_permission_of_the_admins_models() -> None:
    named = re.findall(r"^\| `(\w+)` \|", (DOCS / "reference" / "permissions.md").read_text(), re.MULTILINE)
    expected = set()
    for model in apps.get_app_config("mcp_app").get_models():
        if admin.site.is_registered(model):
            expected |= {get_permission_codename(action, model._meta) for action in model._meta.default_permissions}
            expected |= {codename for codename, _ in model._meta.permissions}
    assert set(named) == expected
