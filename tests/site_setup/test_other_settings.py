"""`mcp_app` in sites whose settings differ from those of a new project, as real processes."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest

from tests.docs.pages import snippet
from tests.site_setup.conftest import Site
from tests.site_setup.test_defaults import add_settings, manage
from tests.support.site import wire
from tests.support.site.browsing import Browser
from tests.support.site.services import ServicesMissingError, missing, own_services
from tests.support.site.wire import Connection
from tests.support.waiting import eventually

STARTING: Final = 120.0
PATIENCE: Final = 30.0
PASSWORD: Final = "for-this-test-only"
TOOLS: Final = '''

import time


@tool(time_limit=1.0, cancel="interrupt", cooperative_grace=0.2)
def oversleep() -> str:
    """Sleep for longer than the time limit."""
    time.sleep(60)
    return "awake"


@tool(cancel="interrupt", cooperative_grace=0.2)
def count(until: int, ctx: ToolContext) -> str:
    """Count the steps, two in a second."""
    for number in range(until):
        ctx.progress(number + 1, until, f"step {number + 1}")
        time.sleep(0.5)
    return f"{until} steps"


@tool
def whose(ctx: ToolContext) -> str:
    """Name the caller and the type of its key."""
    return f"{ctx.user} {type(ctx.user.pk).__name__}"
'''
PAGES: Final = (
    "", "request/", "inflightrequest/", "cancelledrequest/", "cancellation/", "tally/", "tool/", "session/",
    "listenstream/", "token/", "tool/greet/change/", "tool/greet/try/",
)  # fmt: skip
LATEST: Final = """
from mcp_app.models import Request
row = Request.objects.latest("submitted_at")
print("latest", row.pk, row.status, row.cancel_cause or "-", "user", row.user_id or "-")
"""

AGE: Final = """
from datetime import timedelta
from django.db.models import F
from mcp_app.lifecycle.statistics import tallies
from mcp_app.models import DayTally, Request, Tally
tallies.count_ended()
Tally.objects.update(hour=F("hour") - timedelta(days=1))
tallies._days_stored, tallies.COMMIT_MARGIN = None, timedelta(0)
tallies.store_ended_days()
day = DayTally.objects.values_list("zone", "begins_at").distinct().get()
print("day", day[0], day[1].isoformat())
names = ("submitted_at", "finished_at")
Request.objects.update(**{name: F(name) - timedelta(days=400) for name in names})
"""
ZONE: Final = "America/New_York"


@dataclass(frozen=True)
class Running:
    """A site that `mcp serve` serves."""

    site: Site
    port: int

    @contextmanager
    def calling(self, tool: str, token: str = "", **arguments: Any) -> Iterator[Connection]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with closing(Connection(self.port)) as connection:
            asked = wire.message("tools/call", name=tool, arguments=arguments, meta={"progressToken": "p"})
            connection.post(asked, headers=headers)
            yield connection

    def call(self, tool: str, token: str = "", **arguments: Any) -> str:
        with self.calling(tool, token, **arguments) as connection:
            return wire.text(connection.result())

    def ask(self, code: str) -> str:
        return ask(self.site, code)

    def latest(self) -> list[str]:
        """Return the id, the status, the cause of cancellation and the user of the newest request."""
        _, key, status, cause, _, user = self.ask(LATEST).split()
        return [key, status, cause, user]


def ask(site: Site, code: str) -> str:
    """Run code in `manage.py shell`, and return its output."""
    return manage(site, "shell", "--verbosity=0", "-c", code)


@contextmanager
def serving(site: Site) -> Iterator[Running]:
    """Create the tables, and serve the site."""
    assert "mcp_app." not in manage(site, "check")
    manage(site, "migrate", "--verbosity=0")
    server = site.start(sys.executable, "manage.py", "mcp", "serve", "--port=0", "--concurrency=2")
    server.says("READY", STARTING)
    yield Running(site, int(server.says(r"MCP endpoint +http://127\.0\.0\.1:(\d+)/mcp")[1]))
    assert server.stop() == 0, server.output()
    assert "Traceback" not in server.output(), server.output()
    site.await_no_process()


@pytest.fixture
def new_site(first_site: Site) -> Site:
    """Returns a site with more tools, whose administrator can log in."""
    with (first_site.folder / "greetings/mcp_tools.py").open("a") as file:
        file.write(TOOLS)
    return first_site


def superuser(site: Site, **fields: str) -> None:
    """Create an administrator, after the tables."""
    ask(
        site, f"from django.contrib.auth import get_user_model; get_user_model().objects.create_superuser(**{fields!r})"
    )


def shows(running: Running, browser: Browser, prefix: str = "/admin/mcp_app/") -> Mapping[str, str]:
    """Open every page of this app in the admin. Return each page's text."""
    found = {page: browser.get(prefix + page) for page in PAGES}
    assert {page: status for page, (status, _) in found.items() if status != 200} == {}
    return {page: text for page, (_, text) in found.items()}


def logged_in(running: Running, username: str, admin: str = "/admin/") -> Browser:
    return Browser.of(running.port, username, PASSWORD, admin)


@pytest.mark.parametrize("settings", ["USE_I18N = False", 'USE_I18N = False\nLANGUAGE_CODE = "de"'])
def test_a_site_without_translations_runs_tools_and_shows_its_pages(new_site: Site, settings: str) -> None:
    add_settings(new_site, f"{settings}\n")
    with serving(new_site) as running:
        assert running.call("greet", name="Ada") == "Hello Ada, from somebody!"
        superuser(new_site, username="boss", email="", password=PASSWORD)
        key, *_ = running.latest()
        browser = logged_in(running, "boss")
        shows(running, browser)
        assert browser.get(f"/admin/mcp_app/request/{key}/change/")[0] == 200


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.engines, pytest.mark.nightly])])
def site_without_time_zones(request: pytest.FixtureRequest, new_site: Site) -> Iterator[Site]:
    """Yields a site with `USE_TZ = False` in New York."""
    add_settings(new_site, f'USE_TZ = False\nTIME_ZONE = "{ZONE}"\n')
    if request.param == "sqlite":
        yield new_site
        return
    try:
        with own_services() as services:
            url = urlsplit(services["MCPSITE_DATABASE"])
            database = {"NAME": url.path[1:], "USER": url.username, "HOST": url.hostname, "PORT": url.port or ""}
            engine = {"ENGINE": "django.db.backends.postgresql", **database}
            add_settings(new_site, f'DATABASES["default"] = {engine!r}\n')
            yield new_site
    except ServicesMissingError as error:
        missing(f"NO PostgreSQL: {error}")


def test_a_site_without_time_zones_runs_stops_and_shows_calls(site_without_time_zones: Site) -> None:
    site = site_without_time_zones
    with serving(site) as running:
        superuser(site, username="boss", email="", password=PASSWORD)
        browser = logged_in(running, "boss")
        with running.calling("count", until=2) as connection:
            *progress, answer = connection.messages()
        assert [each["params"]["message"] for each in progress] == ["step 1", "step 2"]
        assert wire.text(answer["result"]) == "2 steps"

        assert "its time limit passed" in running.call("oversleep")
        assert running.latest()[1:3] == ["cancelled", "deadline"]

        with running.calling("count", until=1000) as connection:
            next(connection.messages())
            listed = browser.get("/admin/mcp_app/inflightrequest/")[1]
            key = running.latest()[0]
        eventually(lambda: running.latest()[1:3] == ["cancelled", "disconnect"], "the call has stopped", PATIENCE)
        now = datetime.now(ZoneInfo(ZONE))
        hours = {f"{now - timedelta(hours=back):%Y-%m-%d %H:}" for back in (0, 1)}
        pages = shows(running, browser)
        for page in (listed, pages["cancellation/"], browser.get(f"/admin/mcp_app/request/{key}/change/")[1]):
            assert any(hour in page for hour in hours)
        assert browser.get("/admin/mcp_app/cancellation/?within=today")[1].count(key)
        exported = browser.get("/admin/mcp_app/cancellation/export/")[1]
        assert f"{now.astimezone(UTC):%Y-%m-%dT}" in exported
        manage(site, "mcp", "audit", "verify")
        assert "clocks" in manage(site, "mcp", "doctor")

        day = now.date() - timedelta(days=1)
        midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(ZONE)).astimezone(UTC)
        assert f"day {ZONE} {midnight.isoformat()}" in running.ask(AGE)
        assert "3 requests" in manage(site, "mcp", "purge")


USERS: Final = {
    "uuid": ("id = models.UUIDField(primary_key=True, default=uuid.uuid4)", "{}", "UUID"),
    "email": (
        "id = models.UUIDField(primary_key=True, default=uuid.uuid4)\n    username = None\n"
        '    email = models.EmailField(unique=True)\n    USERNAME_FIELD = "email"\n    REQUIRED_FIELDS = []\n'
        "    objects = Members()",
        "{}@site.test",
        "UUID",
    ),
}
"""The body of a user model, how its users are named, and the type of its key."""
MEMBERS: Final = """
import uuid
from django.contrib.auth.models import AbstractUser, BaseUserManager
from django.db import models

class Members(BaseUserManager):
    def create_user(self, email, password=None, **fields):
        member = self.model(email=email, **fields)
        member.set_password(password)
        member.save()
        return member

    def create_superuser(self, email, password=None):
        return self.create_user(email, password, is_staff=True, is_superuser=True)

class Member(AbstractUser):
    {body}
"""


@pytest.fixture(params=USERS)
def site_with_users(request: pytest.FixtureRequest, new_site: Site) -> tuple[Site, Callable[[str], str], str]:
    """Returns a site with its own user model, a function that makes a user's name, and the type of its users' keys."""
    body, name, key_type = USERS[request.param]
    (new_site.folder / "members").mkdir()
    (new_site.folder / "members/__init__.py").touch()
    (new_site.folder / "members/models.py").write_text(MEMBERS.format(body=body))
    settings = 'INSTALLED_APPS += ["members"]\nAUTH_USER_MODEL = "members.Member"\n'
    settings += 'MCP = {"AUTHENTICATOR": "mcp_app.auth.tokens.bearer", "TOOL_CONCURRENCY": 1}\n'
    add_settings(new_site, settings)
    manage(new_site, "makemigrations", "members", "--verbosity=0")
    return new_site, name.format, key_type


def test_callers_are_users_of_the_sites_own_model(site_with_users: tuple[Site, Callable[[str], str], str]) -> None:
    site, named, key_type = site_with_users
    boss, eve = named("boss"), named("eve")
    with serving(site) as running:
        name = {"email": boss} if "@" in boss else {"username": boss}
        superuser(site, **name, password=PASSWORD)
        running.ask(
            "from django.contrib.auth import get_user_model; users = get_user_model().objects; "
            f"users.create_user({eve!r}, password={PASSWORD!r})"
        )
        tokens = {user: manage(site, "mcp", "token", "create", user, "--name=x").strip() for user in (boss, eve)}
        assert running.call("whose", tokens[boss]) == f"{boss} {key_type}"
        key, _, _, user_id = running.latest()
        assert manage(site, "mcp", "call", "whose", "--user", eve).strip().endswith(f"{eve} {key_type}")

        with running.calling("count", tokens[boss], until=1000) as connection:
            next(connection.messages())
            assert running.call("count", tokens[eve], until=1) == "1 steps"
            with running.calling("count", tokens[boss], until=1) as second:
                assert "error" in second.answer(), "a caller may have one open call of a tool"

        browser = logged_in(running, boss)
        shows(running, browser)
        page = browser.get(f"/admin/mcp_app/request/{key}/change/")[1]
        assert boss in page
        assert user_id in page
        assert boss in browser.get(f"/admin/mcp_app/request/?q={boss}")[1]
        status, made = browser.post("/admin/mcp_app/token/add/", username=eve, name="made", scopes="", days="7")
        assert status == 200, made
        token = re.search(r'class="mcp-token">([^<]+)<', made)
        assert token is not None, made
        assert running.call("whose", token[1]) == f"{eve} {key_type}"
        assert "Token" in browser.get("/admin/")[1], "the log of the administrator's own actions"
        prefix = token[1].split("_")[1]
        assert prefix in manage(site, "mcp", "token", "list")
        manage(site, "mcp", "token", "revoke", prefix)
        with running.calling("whose", token[1]) as connection:
            assert connection.response.status == 401
        manage(site, "mcp", "token", "list", "--json")


URLS: Final = "mysite/urls.py"
STAFF_SITE: Final = """
from django.contrib import admin


class StaffSite(admin.AdminSite):
    site_header = "The staff's own site"


staff = StaffSite(name="staff")
"""


def set_urls(site: Site, patterns: str, imports: str = "from django.contrib import admin") -> None:
    (site.folder / URLS).write_text(f"from django.urls import path\n{imports}\n\nurlpatterns = [{patterns}]\n")


def links(page: str) -> set[str]:
    """Return the paths in the attributes of a page."""
    return set(re.findall(r'(?:href|action|formaction|data-[a-z-]+)="(/[^"?#]*)', page))


def test_pages_are_in_the_sites_own_default_admin(new_site: Site) -> None:
    (new_site.folder / "mysite/admin.py").write_text(STAFF_SITE)
    (new_site.folder / "mysite/apps.py").write_text(
        "from django.contrib.admin.apps import AdminConfig\n\n\nclass StaffConfig(AdminConfig):\n"
        '    default_site = "mysite.admin.StaffSite"\n'
    )
    add_settings(new_site, 'INSTALLED_APPS[INSTALLED_APPS.index("django.contrib.admin")] = "mysite.apps.StaffConfig"\n')
    set_urls(new_site, 'path("office/staff/", admin.site.urls)')
    with serving(new_site) as running:
        superuser(new_site, username="boss", email="", password=PASSWORD)
        running.call("greet", name="Ada")
        key, *_ = running.latest()
        browser = logged_in(running, "boss", "/office/staff/")
        pages = shows(running, browser, "/office/staff/mcp_app/")
        pages["detail"] = browser.get(f"/office/staff/mcp_app/request/{key}/change/")[1]
        assert "own site" in pages["request/"]
        assert {link for page in pages.values() for link in links(page) if "mcp_app/" in link} != set()
        strange = {link for page in pages.values() for link in links(page) if link.startswith("/admin")}
        assert strange == set()


@pytest.mark.parametrize("beside", [True, False], ids=["beside the default site", "alone"])
def test_pages_can_be_in_an_admin_site_of_the_sites_own(new_site: Site, beside: bool) -> None:
    (new_site.folder / "mysite/staff.py").write_text(STAFF_SITE)
    default = "from django.contrib import admin\nurlpatterns += [path('admin/', admin.site.urls)]\n" if beside else ""
    set_urls(new_site, 'path("staff/", staff.urls)', "from mysite.staff import staff")
    with (new_site.folder / URLS).open("a") as file:
        file.write(default)
    assert ("mcp_app.W044" in manage(new_site, "check")) == (not beside)
    (new_site.folder / URLS).write_text(
        snippet("how-to/admin.md#if-the-site-has-an-admin-site-of-its-own").text + default
    )
    with serving(new_site) as running:
        superuser(new_site, username="boss", email="", password=PASSWORD)
        browser = logged_in(running, "boss", "/staff/")
        with running.calling("count", until=1000) as connection:
            next(connection.messages())
            key, *_ = running.latest()
            pages = dict(shows(running, browser, "/staff/mcp_app/"))
            request = f"/staff/mcp_app/request/{key}/"
            pages["detail"] = browser.get(f"{request}change/")[1]
            assert f"{request}cancel/" in pages["detail"]
            assert browser.post(f"{request}cancel/", reason="enough")[0] == 302
            assert "cancelled by an administrator" in wire.text(connection.result())
        strange = {link for page in pages.values() for link in links(page) if link.startswith("/admin/")}
        assert strange == set()


@pytest.mark.parametrize("installed", [True, False], ids=["not mounted", "not installed"])
def test_a_site_without_an_admin_runs_tools(new_site: Site, installed: bool) -> None:
    set_urls(new_site, "", imports="")
    if not installed:
        apps = ("admin", "sessions", "messages", "staticfiles")
        gone = [f"django.contrib.{app}" for app in apps]
        add_settings(
            new_site,
            f"INSTALLED_APPS = [app for app in INSTALLED_APPS if app not in {gone}]\n"
            'MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]\nTEMPLATES = []\n',
        )
    with serving(new_site) as running:
        assert running.call("greet", name="Ada") == "Hello Ada, from somebody!"
        assert running.latest()[1] == "completed"
        assert "greet" in manage(new_site, "mcp", "tools")
        manage(new_site, "mcp", "doctor")
