"""`mcp requests`: its list and the details of one request; and `mcp cancel` with the ids that it shows."""

import io
import json
import re
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.management.requests.request_ids import SHOWN, find
from mcp_app.models import Cancellation, Request, RequestEvent, request_ids
from mcp_app.states import EventKind, Status
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__")
ESCAPE = "\x1b[2J\u202e"


def said(*words: str) -> str:
    call_command("mcp", "requests", *words, stdout=(output := io.StringIO()), stderr=io.StringIO())
    return output.getvalue()


def listed(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said(*words, "--json"))
    return found


@pytest.fixture
def several() -> dict[str, Request]:
    """One request of each kind, the oldest first."""
    ended = rows.queued(tool="mine", principal=rows.STRANGER)
    rows.cancel(ended)
    return {
        "ended": rows.fresh(ended),
        "queued": rows.queued(tool="dig"),
        "running": rows.running(uuid4(), tool="dig", principal=rows.STRANGER),
        "stopping": rows.stopping(uuid4(), tool="delve"),
        "asking": rows.asking(uuid4(), tool="mine"),
    }


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["asking", "stopping", "running", "queued"]),
        (["--all"], ["asking", "stopping", "running", "queued", "ended"]),
        (["--status", "cancelled", "--status", "queued"], ["queued", "ended"]),
        (["--tool", "dig"], ["running", "queued"]),
        (["--all", "--principal", "Eve"], ["running", "ended"]),
        (["--principal", "site,8,editor"], ["running"]),
        (["--all", "--limit", "2"], ["asking", "stopping"]),
        (["--all", "--since", "2h"], ["asking", "stopping", "running", "queued"]),
    ],
    ids=" ".join,
)
def test_it_lists_what_is_asked_for_newest_first(
    several: dict[str, Request], words: list[str], names: list[str]
) -> None:
    # Rows of the same moment have no defined order, so each gets a time of its own. One is old.
    for age, row in enumerate(reversed(several.values())):
        submitted = timezone.now() - timedelta(seconds=age, hours=3 * (age == 4))
        Request.objects.filter(pk=row.pk).update(submitted_at=submitted)
    assert [each["id"] for each in listed(*words)] == [str(several[name].pk) for name in names]
    shown = [line.split()[0] for line in said(*words).splitlines()[1:]]
    assert shown == [str(several[name].pk)[:SHOWN] for name in names]


def test_calls_of_one_moment_are_told_apart_and_each_is_found_by_what_is_shown() -> None:
    moment = request_ids.new().int >> 80
    made = [rows.queued(id=UUID(int=moment << 80 | request_ids.new().int % (1 << 80))) for _ in range(40)]
    shown = [line.split()[0] for line in said().splitlines()[1:]]
    assert sorted(find(each) for each in shown) == sorted(row.pk for row in made)


def test_a_line_tells_how_far_a_request_is_and_how_far_its_stop() -> None:
    row = rows.stopping(uuid4(), tool="dig", reason="enough")
    Request.objects.filter(pk=row.pk).update(
        progress=3.0, progress_total=10.0, progress_message=f"rock{ESCAPE}", principal_label=f"Ada{ESCAPE}", stage=1
    )
    [head, line] = said().splitlines()
    assert head.split() == ["ID", "TOOL", "STATUS", "PROGRESS", "AGE", "TOOK", "CALLER", "WORKER", "CANCEL"]
    for words in ("running, cancel requested", "3 of 10 rock\\u001b[2J", "client asked, stage cooperative"):
        assert words in line
    assert not set("\x1b\u202e") & set(line)
    [told] = listed()
    assert (told["progress"], told["cancel"]["stage"], told["cancel"]["reason"]) == (3.0, "cooperative", "enough")
    assert told["caller"]["label"] == f"Ada{ESCAPE}"


@pytest.mark.parametrize(("words", "words_said"), [([], "No request"), (["--all"], "no such requests")])
def test_where_there_is_none_it_says_so(words: list[str], words_said: str) -> None:
    assert words_said in said(*words)
    assert listed(*words) == []


def test_one_is_told_as_the_admin_tells_it_and_without_what_was_redacted() -> None:
    row = rows.running(uuid4(), tool="dig", arguments={"depth": 3, "of": ESCAPE})
    Request.objects.filter(pk=row.pk).update(redacted=["arguments"], unredacted={"arguments": {"depth": "a secret"}})
    transitions.record(row.pk, [Event(EventKind.PROGRESS, {"progress": 1, "total": 4, "message": ESCAPE})])
    rows.cancel(row, reason="enough")
    told = said(str(row.pk)[:SHOWN])
    assert told.startswith(f"dig: running, cancel requested\n  request {row.pk}\n")
    for words in (
        "Redacted                    arguments",
        '"depth": 3',
        "progress: 1 of 4: \\u001b[2J\\u202e",
    ):
        assert words in told
    assert re.search(r"Ada \(192\.0\.2\.7\).*client asked.*“enough”.*Accepted.*running", told)
    assert re.search(r"cancel requested: client asked.*Ada.*“enough”", told)
    assert not set("\x1b\u202e") & set(told)
    everything = said(str(row.pk), "--json")
    assert "a secret" not in told + everything
    found = json.loads(everything)
    assert found["arguments"] == {"depth": 3, "of": ESCAPE}
    assert [event["kind"] for event in found["events"]] == ["transition", "transition", "progress", "cancel"]
    assert found["cancellations"][0]["reason"] == "enough"


def queued_as(request_id: str) -> None:
    """Queue a request with this id."""
    row = rows.queued()
    RequestEvent.objects.filter(request=row.pk).delete()
    Request.objects.filter(pk=row.pk).update(id=UUID(request_id))


def test_the_beginning_of_an_id_is_enough_where_it_is_one_requests() -> None:
    for number in (1, 2):
        queued_as(f"aaaa000{number}-0000-7000-8000-000000000000")
    assert "aaaa0001-0000" in said("aaaa0001")
    with pytest.raises(CommandError, match=r"Several\b.* aaaa: .*aaaa0001.*aaaa0002"):
        said("aaaa")
    for unknown in ("aaaa0003", "no id"):
        with pytest.raises(CommandError, match=f"no request '{unknown}'"):
            said(unknown)


def cancelled(*words: str) -> str:
    call_command("mcp", "cancel", *words, stdout=(output := io.StringIO()))
    return output.getvalue()


def test_cancel_takes_the_beginning_of_an_id_and_refuses_that_of_two() -> None:
    for number in (0, 1):
        queued_as(f"aaaa000{number}-0000-7000-8000-000000000000")
    with pytest.raises(CommandError, match=r"Several\b.* aaaa: .*aaaa0000.*aaaa0001"):
        cancelled("aaaa")
    assert not Cancellation.objects.exists()
    assert json.loads(cancelled("aaaa0000", "--wait", "--json")) == {
        "id": "aaaa0000-0000-7000-8000-000000000000",
        "outcome": "accepted",
        "status": "cancelled",
        "stage": "none",
        "latency_ms": 0.0,
    }
    assert list(Request.objects.order_by("pk").values_list("status", flat=True)) == [Status.CANCELLED, Status.QUEUED]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["cancel", "--tool", "dig"], {"group": "tool dig", "outcomes": {"accepted": 1}, "not_stopped": 0}),
        (["purge"], {"requests": 0, "attempts": 0}),
        (["audit", "verify"], {"findings": [], "sealed": 0, "waiting": 0, "purged_days": 0, "head": ""}),
        (["token", "list"], []),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_scripts_read_is_json(words: list[str], told: Any) -> None:
    rows.queued(tool="dig")
    call_command("mcp", *words, "--json", stdout=(output := io.StringIO()))
    assert json.loads(output.getvalue()) == told


def test_tools_are_told_to_scripts_as_well() -> None:
    call_command("mcp", "tools", "--json", stdout=(output := io.StringIO()))
    told = {each["name"]: each for each in json.loads(output.getvalue())}
    assert told["roman"] == {
        "name": "roman",
        "state": "new: enabled at the next start",
        "enabled": None,
        "registered": True,
        "endpoints": [],
        "bytes": told["roman"]["bytes"],
    }
    assert told["roman"]["bytes"] > 100
