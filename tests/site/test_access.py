"""The projects that tools can use, and the users who may call tools that do more than read."""

import pytest

from mcp_app.auth import local
from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.execution.tool.context import ToolContext
from mcp_app.tools import ToolError
from mcpsite.access import require_staff
from mcpsite.tools.projects import locate
from tests.execution import driver
from tests.support import rows

EVERYWHERE = {"default", "mcp"}


def called_by(user=None, principal=None):
    if user is not None:
        principal = Principal("site", str(user.pk), "editor", user.username, str(user.pk))
    return ToolContext(rows.queued(principal=principal or ANONYMOUS), None, None)


@pytest.mark.django_db(databases=EVERYWHERE)
def test_staff_may(django_user_model):
    require_staff(called_by(django_user_model.objects.create_user("ada", is_staff=True)))


@pytest.mark.django_db(databases=EVERYWHERE)
@pytest.mark.parametrize("debug", [False, True])
def test_others_may_not(django_user_model, settings, debug):
    settings.DEBUG = debug
    gone = django_user_model.objects.create_user("gone", is_staff=True)
    callers = [
        called_by(django_user_model.objects.create_user("eve")),
        called_by(django_user_model.objects.create_user("left", is_staff=True, is_active=False)),
        called_by(gone),
    ]
    gone.delete()
    for caller in callers:
        with pytest.raises(ToolError, match="only staff may call it"):
            require_staff(caller)


@pytest.mark.django_db(databases=EVERYWHERE)
@pytest.mark.parametrize("debug", [False, True])
def test_the_anonymous_may_not(settings, debug):
    settings.DEBUG = debug
    with pytest.raises(ToolError, match="Send a staff user's token as `Authorization: Bearer TOKEN`"):
        require_staff(called_by())


@pytest.mark.django_db(databases=EVERYWHERE)
def test_who_starts_the_process_may_unless_they_act_for_a_user_who_may_not(django_user_model):
    require_staff(called_by(principal=local.local_principal()))
    django_user_model.objects.create_user("eve")
    with pytest.raises(ToolError, match="only staff may call it"):
        require_staff(called_by(principal=local.acting_for("eve")))


HARMLESS = {"countdown", "find_usages", "lint", "roman"}
OTHERS = {
    "evaluate_python": {"code": "1"},
    "import_csv": {"text": "email,name\na@example.org,A\n"},
    "rename_symbol": {"project": "sample", "old": "Inventory", "new": "Stock"},
    "run_command": {"command": "list_files", "arguments": {"folder": "."}},
    "run_tests": {"project": "sample"},
}


def test_every_tool_is_harmless_or_for_staff():
    from mcpsite import mcp_tools

    assert set(mcp_tools.__all__) == {*HARMLESS, *OTHERS}


@pytest.mark.parametrize("tool", sorted(OTHERS))
def test_a_tool_that_runs_code_or_changes_something_is_for_staff_alone(example, eve, tool):
    for user_id in ("", eve):
        assert "only staff may call it" in example.refusal(tool, user_id=user_id, **OTHERS[tool])


@pytest.fixture(scope="session")
def eve(example):
    """The key of a user who is not staff."""
    return example.site.ask(driver.make_user, "eve")


@pytest.fixture
def projects(settings, tmp_path):
    settings.PROJECTS = tmp_path / "projects"
    return settings.PROJECTS


def test_where_there_are_no_projects_there_is_a_sample(projects):
    assert (locate("sample") / "test_inventory.py").is_file()
    assert [path.name for path in projects.parent.iterdir()] == ["projects"]


def test_a_folder_of_projects_that_is_there_is_left_alone(projects):
    projects.mkdir()
    with pytest.raises(ToolError, match="there are: none"):
        locate("sample")
    assert list(projects.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["", "..", ".", "sample/stock", "/etc", "..\\x", "link", "file", "nothing", "sample\0"]
)
def test_only_a_folder_of_the_projects_is_a_project(projects, tmp_path, name):
    locate("sample")
    (projects / "file").touch()
    (projects / "link").symlink_to(tmp_path)
    with pytest.raises(ToolError, match="There is no project of that name") as caught:
        locate(name)
    assert str(tmp_path) not in str(caught.value)
