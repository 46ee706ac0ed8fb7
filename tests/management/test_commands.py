"""`manage.py mcp cancel`, `tools` and `worker`."""

import re
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command

from mcp_app.catalogue import catalogue
from mcp_app.catalogue.registry import registered_tools
from mcp_app.models import Cancellation, Tool
from mcp_app.protocol.jsonrpc import encode
from tests.lifecycle import families
from tests.management.conftest import Served, manage, read
from tests.support import rows


@pytest.mark.acceptance
def test_cancel_stops_a_running_call_and_a_second_one_comes_too_late(data: Path, serve: Callable[..., Served]) -> None:
    served = serve(data)
    served.begin_call("countdown", seconds=600)
    request_id = str(UUID(read(data, "SELECT id FROM ?request")[0][0]))

    done = manage(data, "mcp", "cancel", request_id, "--reason", "enough of it", "--wait")
    assert done.returncode == 0, done.stderr
    requested, ended = done.stdout.splitlines()
    assert requested == f"{request_id}: cancel requested"
    assert ended.startswith(f"{request_id}: cancelled, stage cooperative, ")
    [(cause, actor, reason)] = read(data, "SELECT cancel_cause, cancel_actor, cancel_reason FROM ?request")
    assert (cause, actor.split(":")[0], reason) == ("admin", "command line", "enough of it")

    late = manage(data, "mcp", "cancel", request_id)
    [error] = late.stderr.splitlines()
    assert late.returncode == 1
    assert error.startswith(f"CommandError: {request_id}: ")
    assert "already finished" in error


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize("request_id", [str(UUID(int=1)), "no id at all"])
def test_cancel_of_an_unknown_request_says_so_and_is_audited(request_id: str) -> None:
    with pytest.raises(CommandError, match=f"{request_id}: unknown request"):
        call_command("mcp", "cancel", request_id, "--reason", "a mistake")

    row = Cancellation.objects.get()
    assert (row.cause, row.outcome, row.requested_id, row.reason) == ("admin", "unknown", request_id, "a mistake")


def stopped(*options: str) -> tuple[str, set[str]]:
    """Run `mcp cancel` for a group. Return its output and the tools of the stopped requests."""
    call_command("mcp", "cancel", *options, "--reason", "an incident", stdout=(said := StringIO()))
    return said.getvalue().strip(), set(Cancellation.objects.values_list("tool", flat=True))


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize(
    ("options", "said", "tools"),
    [
        (["--tool", "dig"], "tool dig: 1 cancel requested", {"dig"}),
        (["--principal", "Eve"], "caller Eve: 1 cancel requested", {"delve"}),
        (["--principal", "site,7,editor"], "caller Ada: 2 cancel requested", {"dig", "mine"}),
        (["--session", str(UUID(int=5))], f"session {UUID(int=5)}: 1 cancel requested", {"mine"}),
        (["--all"], "everything: 3 cancel requested", {"dig", "delve", "mine"}),
        (["--tool", "unheard"], "tool unheard: nothing to cancel", set()),
    ],
)
def test_cancel_stops_all_of_a_kind(options: list[str], said: str, tools: set[str]) -> None:
    rows.queued(tool="dig")
    rows.queued(tool="delve", principal=rows.STRANGER)
    rows.queued(tool="mine", session=UUID(int=5))
    assert stopped(*options) == (said, tools)
    assert not Cancellation.objects.exclude(reason="an incident", part_of=said.split(":")[0], cause="admin").exists()


@pytest.mark.django_db(databases="__all__")
def test_cancel_stops_what_a_request_started_and_not_itself() -> None:
    parent = rows.running(uuid4(), tool="dig")
    families.child(parent, tool="delve")
    said, tools = stopped("--children-of", str(parent.pk), "--wait")
    assert said.splitlines() == [
        f"started by {parent.pk}: 1 cancel requested",
        f"started by {parent.pk}: stopped",
    ]
    assert tools == {"delve"}
    assert rows.fresh(parent).cancel_requested_at is None


@pytest.mark.django_db(databases="__all__")
def test_cancel_says_whose_name_is_not_clear() -> None:
    for client_id in ("editor", "shell"):
        rows.queued(principal=replace(rows.OWNER, client_id=client_id))
    with pytest.raises(CommandError, match="site,7,editor; site,7,shell"):
        stopped("--principal", "Ada")
    with pytest.raises(CommandError, match=r"No caller\b.* Bob\b"):
        stopped("--principal", "Bob")
    assert stopped("--principal", "site,7,shell")[0] == "caller Ada: 1 cancel requested"


@pytest.mark.django_db(databases="__all__")
def test_cancel_says_how_many_have_not_stopped_in_time() -> None:
    rows.running(uuid4(), tool="dig")
    with pytest.raises(CommandError, match=r"tool dig: 1 not stopped\b.* 0\.1 s"):
        stopped("--tool", "dig", "--wait", "0.1")


@pytest.mark.parametrize("options", [[], ["--all", "--tool", "dig"], [str(uuid4()), "--all"]])
def test_cancel_wants_one_selection(options: list[str]) -> None:
    with pytest.raises(CommandError, match=r"required|not allowed with"):
        call_command("mcp", "cancel", *options)


@pytest.mark.django_db(databases="__all__")
def test_tools_lists_every_tool_with_its_state() -> None:
    Tool.objects.create(name="roman", location="x", enabled=False)
    Tool.objects.create(name="former", location="x", registered=False)
    call_command("mcp", "tools", stdout=(output := StringIO()))

    *lines, last = output.getvalue().splitlines()
    said = dict(line.split(maxsplit=1) for line in lines)
    assert list(said) == sorted(said)
    countdown = registered_tools()["countdown"]
    size = len(encode(offered.wire())) if (offered := catalogue.offer(countdown, None)) else 0
    assert said["countdown"].startswith("new: enabled")
    assert said["countdown"].endswith(f", {size} bytes")
    assert said["former"] == "code is gone"
    assert said["roman"] == "disabled"
    sizes = [int(size.replace(",", "")) for size in re.findall(r", ([\d,]+) bytes", output.getvalue())]
    assert len(sizes) == len(lines) - 2
    assert all(fact in last for fact in ("tools/list", f" {sum(sizes):,} bytes", f" {len(sizes)} tools"))


@pytest.mark.django_db(databases="__all__")
def test_tools_are_made_known_where_no_serve_does_that() -> None:
    Tool.objects.create(name="roman", location="x", enabled=False)
    Tool.objects.create(name="former", location="x")
    call_command("mcp", "tools", "--sync", stdout=(output := StringIO()))

    said = dict(line.split(",")[0].split(maxsplit=1) for line in output.getvalue().splitlines())
    assert (said["countdown"], said["former"], said["roman"]) == ("enabled", "code is gone", "disabled")


@pytest.mark.acceptance
def test_worker_without_its_parent_does_not_begin(data: Path) -> None:
    done = manage(data, "mcp", "worker", "--parent-pid", "1")
    [error] = done.stderr.splitlines()
    assert done.returncode == 1
    assert re.search(r"process 1\b.* gone\b", error)
