"""Only users with the permission can try a tool, with their own rights; a rejected attempt stores nothing."""

import re

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from mcp_app.catalogue import tool_rows
from mcp_app.models import Request
from tests.admin.conftest import SEE
from tests.admin.pages import words
from tests.admin.try_tool.forms import (
    CALL,
    MAY,
    SEE_TOOLS,
    TOOLS,
    LogIn,
    Recorder,
    address,
    loaded,
    run,
)

pytestmark = pytest.mark.django_db(databases="__all__")


RIGHTS = {
    "nothing of it": ((SEE, SEE_TOOLS), {}, False),
    "no tools": ((SEE, CALL), {}, False),
    "enough": ((SEE_TOOLS, CALL), {}, True),
    "changes tools": (("change_tool", CALL), {}, True),
    "everything": ((), {"is_superuser": True}, True),
}


@pytest.mark.parametrize("has", RIGHTS)
def test_who_may_not_finds_no_way_to_call(has: str, log_in: LogIn, queue: Recorder) -> None:
    permissions, fields, may = RIGHTS[has]
    browser = log_in(*permissions, **fields)
    page = browser.get(f"{TOOLS}search/change/")
    assert (f'href="{address()}"' in page.content.decode()) == may
    assert browser.get(address()).status_code == (200 if may else 403)
    assert run(browser, pattern="a").status_code == (302 if may else 403)
    assert Request.objects.count() == len(queue.sent) == may


@pytest.mark.parametrize(("grants", "may"), [((), False), (("view_user",), False), (("view_user", "staff"), True)])
def test_a_tool_is_called_with_the_rights_of_its_user_as_a_caller(
    grants: tuple[str, ...], may: bool, log_in: LogIn, queue: Recorder
) -> None:
    browser = log_in(*MAY, name="tester")
    user = User.objects.get(username="tester")
    if "view_user" in grants:
        user.user_permissions.add(Permission.objects.get(codename="view_user"))
    if "staff" in grants:
        user.groups.add(Group.objects.create(name="staff"))
    assert ("Try it" in words(browser.get(f"{TOOLS}guarded/change/"))) == may
    assert run(browser, "guarded").status_code == (302 if may else 403)
    assert Request.objects.count() == may


def test_what_is_disabled_or_gone_or_unknown_is_not_called(log_in: LogIn, queue: Recorder) -> None:
    root = log_in(is_superuser=True)
    tool_rows.change(["search"], enabled=False)
    tool_rows.change(["rare"], registered=False)
    for name, status in (("search", 403), ("rare", 403), ("nothing", 404)):
        assert root.get(address(name)).status_code == run(root, name).status_code == status
    assert "Try it" not in words(root.get(f"{TOOLS}search/change/"))
    assert not Request.objects.exists()


def test_only_a_post_with_django_s_token_calls(tester: Client, queue: Recorder) -> None:
    for method in ("get", "head", "put", "delete", "patch"):
        getattr(tester, method)(f"{address()}?argument/pattern=a&_mode=fields")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="tester"))
    assert run(strict, pattern="a").status_code == 403
    assert not Request.objects.exists()
    token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', strict.get(address()).content.decode())
    assert token is not None
    filled = {"_mode": "fields", "argument/pattern": "a", "csrfmiddlewaretoken": token[1], "_page": loaded(strict)}
    assert strict.post(address(), filled).status_code == 302
