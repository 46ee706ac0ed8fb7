"""The data that the form and the page show to each user."""

import re
from typing import Any

import pytest
from django.test import Client

from mcp_app.catalogue import tool_rows
from mcp_app.conf import settings as app_settings
from mcp_app.models import Request
from tests.admin.conftest import CANCEL, SEE, SEE_PAYLOAD
from tests.admin.hostile import REVERSED, SCRIPT
from tests.admin.pages import words
from tests.admin.try_tool.forms import CALL, MAY, SECRET, SEE_TOOLS, LogIn, Recorder, address, called, run
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__")


def test_who_may_not_see_requests_is_told_its_id_and_comes_back_to_the_form(log_in: LogIn, queue: Recorder) -> None:
    browser = log_in(CALL, SEE_TOOLS)
    assert re.search(r"\black\b[^.]* view requests", words(browser.get(address())))
    response = run(browser, pattern="a")
    assert response.url == address()
    assert f"request {called().pk}" in words(browser.get(response.url))


def test_the_page_says_what_it_does_and_what_stops_it(log_in: LogIn) -> None:
    shown = words(log_in(*MAY, CANCEL).get(address()))
    for said in (
        "real call",
        "in the name of grace",
        "does not cancel it",
        "on the next page",
        "stopped after 60 min 0 s" if app_settings.DEFAULT_TIME_LIMIT < 3600 else "stopped after 1 h 0 min",
    ):
        assert said in shown
    assert re.search(r"\black\b[^.]* cancel requests", words(log_in(*MAY, name="other").get(address())))


def hide(kind: str, tool_name: str, value: Any) -> Any:
    return {name: "***" if SECRET in str(each) else each for name, each in value.items()}


def test_its_arguments_are_shown_and_kept_as_any_request_s(log_in: LogIn, queue: Recorder, configure: Any) -> None:
    browser = log_in(*MAY)
    run(browser, pattern="axle")
    page = f"/admin/mcp_app/request/{called().pk}/change/"
    assert "axle" not in words(browser.get(page))
    assert "axle" in words(log_in(SEE, SEE_PAYLOAD, name="auditor").get(page))
    Request.objects.all().delete()
    configure(REDACT=f"{__name__}.hide")
    run(browser, pattern="a", part=SECRET)
    row = called()
    assert (row.arguments["part"], row.unredacted_value("arguments")["part"]) == ("***", SECRET)


def test_an_administrator_s_and_an_author_s_words_are_inert(log_in: LogIn) -> None:
    tool_rows.change(["search"], title=SCRIPT, description=SCRIPT + REVERSED)
    content = log_in(*MAY).get(address()).content.decode()
    assert SCRIPT not in content
    assert "\u202e" not in content


def test_nobody_else_s_calls_are_counted(tester: Client, queue: Recorder) -> None:
    rows.queued(tool="alone")
    assert run(tester, "alone").status_code == 302
