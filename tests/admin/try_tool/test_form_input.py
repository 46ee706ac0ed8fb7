"""Errors are shown beside their fields, and input is kept when the user switches to the other form."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.exceptions import NON_FIELD_ERRORS
from django.test import Client

from mcp_app.models import Request
from tests.admin.pages import words
from tests.admin.try_tool.forms import Recorder, address, called, refused, run, send

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.mark.parametrize(
    ("filled", "facts"),
    [
        ({}, ("argument/pattern:", "required")),
        ({"pattern": "a", "limit": "many"}, ("argument/limit:", "whole number")),
        ({"pattern": "too long"}, ("argument/pattern:", "at most 5 characters")),
        ({"pattern": "a", "gone": "x"}, (f"{NON_FIELD_ERRORS}:", "tool has changed")),
    ],
)
def test_what_is_not_valid_is_told_beside_its_field_and_leaves_nothing(
    filled: dict[str, str], facts: tuple[str, ...], tester: Client, queue: Recorder
) -> None:
    told = refused(tester, **filled)
    assert all(fact in told for fact in facts), told
    assert queue.sent == []


def test_all_arguments_are_filled_in_as_json(tester: Client, queue: Recorder) -> None:
    for given in ("{", '{"pattern": 1}', '{"pattern": "a", "more": 1}', "[]"):
        response = send(tester, "search", {"_mode": "json", "json": given})
        [(field, [told])] = response.context["form"].errors.items()
        assert field == "json"
        assert told in words(response)
    assert not Request.objects.exists()
    assert send(tester, "search", {"_mode": "json", "json": '{"pattern": ""}'}).status_code == 302
    assert called().arguments == {"pattern": ""}


def test_what_was_filled_in_stays_when_it_is_filled_in_on_in_the_other_way(tester: Client, queue: Recorder) -> None:
    def switch(to: str, **fields: str) -> Any:
        return tester.post(address(), {"_show": to, **fields}).context["form"]

    as_json = switch("json", _mode="fields", **{"argument/limit": "3", "argument/part": "all"})
    assert as_json["json"].value() == '{\n  "limit": 3,\n  "part": "all"\n}'
    fields = switch("fields", _mode="json", json='{"pattern": "a", "limit": 4, "part": "b"}')
    assert [fields[f"argument/{name}"].value() for name in ("pattern", "limit", "part")] == ["a", "4", "b"]
    stays = switch("fields", _mode="json", json='{"more": 1}')
    assert stays["json"].value() == '{"more": 1}'
    assert "stay JSON" in str(stays.non_field_errors())
    wrong = switch("json", _mode="fields", **{"argument/limit": "many"})
    assert wrong["argument/limit"].value() == "many"
    assert not Request.objects.exists()


def test_a_tool_that_asks_is_refused_before_it_is_called(tester: Client, queue: Recorder) -> None:
    for response in (tester.get(address("asks")), run(tester, "asks")):
        shown = response.content.decode()
        assert re.search('id="mcp-refused">[^<]* capabilities elicitation', shown)
        assert "Run it" not in shown
    assert not Request.objects.exists()
    assert not LogEntry.objects.exists()
