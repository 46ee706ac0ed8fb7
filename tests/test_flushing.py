"""After a test that committed, the tables have the same rows as after the migrations."""

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.test import TransactionTestCase

from mcp_app.models import Tool
from tests.support.flushing import flush

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


class Case(TransactionTestCase):
    databases = frozenset(settings.DATABASES)


def permissions() -> set[tuple[str, str, str]]:
    return set(Permission.objects.values_list("content_type__app_label", "content_type__model", "codename"))


def test_what_was_committed_is_gone_on_every_database() -> None:
    before = permissions()
    Tool.objects.create(name="roman", location="x")
    User.objects.create_user("ada").user_permissions.set(Permission.objects.all())
    flush(Case())
    assert not Tool.objects.exists()
    assert not User.objects.exists()
    assert permissions() == before


@pytest.mark.parametrize("changed", ["added", "removed", "renamed"])
def test_permissions_that_a_test_changed_are_restored(changed: str) -> None:
    flush(Case())
    before = permissions()
    if changed == "added":
        Permission.objects.create(codename="odd", content_type=ContentType.objects.get(model="tool"))
    elif changed == "removed":
        ContentType.objects.get(model="tool").delete()
    else:
        Permission.objects.filter(codename="view_tool").update(codename="odd")
    assert permissions() != before
    flush(Case())
    assert permissions() == before
