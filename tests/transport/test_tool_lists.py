"""`tools/list` from cached encoded results, which are never outdated and never another caller's."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import OperationalError

from mcp_app.catalogue import catalogue, tool_rows
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import tool
from mcp_app.models import Tool
from mcp_app.protocol import jsonrpc
from mcp_app.transport.process import tool_lists
from tests.support.asgi_client import message, post
from tests.support.worker import in_thread
from tests.transport.asker import AUTHENTICATOR, set_caller, user

pytestmark = pytest.mark.usefixtures("_rows")


EVERYBODYS = ["inquisitive", "regional", "work"]


@pytest.fixture
def _rows() -> None:
    tool_rows.sync()


async def result(**params: Any) -> dict[str, Any]:
    made: dict[str, Any] = (await (await post(message("tools/list", **params))).json())["result"]
    return made


async def names(**params: Any) -> list[str]:
    return [each["name"] for each in (await result(**params))["tools"]]


@contextmanager
def counted_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str | None]]:
    made: list[str | None] = []
    make = catalogue.page
    monkeypatch.setattr(catalogue, "page", lambda cursor, *who: made.append(cursor) or make(cursor, *who))
    yield made


async def test_a_change_is_in_the_next_list(monkeypatch) -> None:
    with counted_pages(monkeypatch) as made:
        assert await names() == EVERYBODYS
        assert await names() == EVERYBODYS
        assert len(made) == 1
        await in_thread(tool_rows.set_enabled, "work", enabled=False)
        assert await names() == ["inquisitive", "regional"]
        await in_thread(tool_rows.change, ["regional"], title="Elsewhere")
        assert [each.get("title") for each in (await result())["tools"]] == [None, "Elsewhere"]
        assert len(made) == 3


async def test_a_row_that_was_changed_past_this_app_is_told_of_a_little_later(monkeypatch) -> None:
    assert await names() == EVERYBODYS
    await in_thread(Tool.objects.filter(pk="work").update, enabled=False)
    monkeypatch.setattr(tool_lists, "MAX_AGE_SECONDS", 0.0)
    assert await names() == ["inquisitive", "regional"]


async def test_every_page_is_kept_by_where_it_begins(configure, monkeypatch) -> None:
    configure(PAGE_SIZE=2)
    with counted_pages(monkeypatch) as made:
        for _ in range(2):
            first = await result()
            assert await names(cursor=first["nextCursor"]) == ["work"]
        assert len(made) == 2
        client = await post(message("tools/list", cursor="forged"))
        assert (await client.json())["error"]["code"] == -32602


async def test_answers_differ_in_their_id_alone() -> None:
    answers = [await (await post(message("tools/list", request_id))).json() for request_id in (1, "a\u20ac", 3)]
    assert [answer.pop("id") for answer in answers] == [1, "a\u20ac", 3]
    assert answers[0] == answers[1] == answers[2]


async def test_each_caller_is_listed_what_they_may_have_now(configure) -> None:
    configure(ALLOW_ANONYMOUS=True, AUTHENTICATOR=AUTHENTICATOR)
    clerk, guest = await in_thread(user, "view_user"), await in_thread(user)
    with isolated_registries():

        @tool
        def everybodys() -> str:
            return ""

        @tool(permissions=["auth.view_user"])
        def clerks() -> str:
            return ""

        async def listed(principal: Any) -> list[str]:
            set_caller(principal)
            return await names()

        for _ in range(2):
            assert await listed(clerk) == ["clerks", "everybodys"]
            assert await listed(guest) == await listed(None) == ["everybodys"]
        await in_thread(lambda: User.objects.get(pk=clerk.user_id).user_permissions.clear())
        assert await listed(clerk) == ["everybodys"]


@pytest.mark.fault("G6")
async def test_what_a_caller_is_granted_while_their_list_is_made_is_not_shown_to_others(configure, monkeypatch) -> None:
    configure(ALLOW_ANONYMOUS=True, AUTHENTICATOR=AUTHENTICATOR)
    clerk, guest = await in_thread(user), await in_thread(user)
    make = catalogue.page

    def late(*asked: Any) -> Any:
        permission = Permission.objects.get(codename="view_user")
        User.objects.get(pk=clerk.user_id).user_permissions.add(permission)
        return make(*asked)

    with isolated_registries():
        tool(name="clerks", permissions=["auth.view_user"])(lambda: "")
        tool(name="everybodys")(lambda: "")
        set_caller(clerk)
        with monkeypatch.context() as patched:
            patched.setattr(catalogue, "page", late)
            assert await names() == ["everybodys"]
        set_caller(guest)
        assert await names() == ["everybodys"]
        set_caller(clerk)
        assert await names() == ["clerks", "everybodys"]


async def test_a_list_that_could_not_be_read_is_not_kept(monkeypatch) -> None:
    with monkeypatch.context() as broken:

        def away(*asked: object) -> None:
            raise OperationalError("the database went away")

        broken.setattr(catalogue, "page", away)
        client = await post(message("tools/list"))
        assert (await client.json())["error"]["code"] == 503
    assert await names() == EVERYBODYS


async def test_those_who_ask_together_share_one_reading_that_began_after_they_asked(monkeypatch) -> None:
    read: list[int] = []
    version = tool_rows.version

    def counted() -> int:
        read.append(version())
        return read[-1]

    monkeypatch.setattr(tool_rows, "version", counted)
    assert await asyncio.gather(*(names() for _ in range(20))) == [EVERYBODYS] * 20
    assert len(read) < 20


def test_an_encoded_result_is_on_the_wire_what_the_plain_one_is() -> None:
    plain = {"tools": [{"name": "a\ud800", "title": "€"}], "nested": {"result": None}}
    for message_of in (lambda result: jsonrpc.response("i", result), lambda result: {"result": result, "id": 1}):
        encoded, written = jsonrpc.encode(message_of(jsonrpc.Encoded(plain))), jsonrpc.encode(message_of(plain))
        assert json.loads(encoded) == json.loads(written)
