"""The output of commands cannot control the terminal, whatever text clients and tools have sent."""

from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.models import Request, Session
from mcp_app.safe_text import safe_text
from mcp_app.states import ProcessRole, Status
from tests.hostile_site import HOSTILE, hostile_site

pytestmark = [pytest.mark.usefixtures("_hostile"), pytest.mark.django_db(databases="__all__")]


@pytest.fixture
def _hostile() -> Iterator[None]:
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    with hostile_site(identity.boot_id):
        yield


def printed(*arguments: str) -> str:
    """Return the whole output of a command and the error with which it ends."""
    output, aside = StringIO(), StringIO()
    try:
        call_command("mcp", *arguments, stdout=output, stderr=aside)
    except CommandError as error:
        aside.write(str(error))
    return output.getvalue() + aside.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        ("requests", "--all"),
        ("requests", "--all", "--json"),
        ("requests", "ID"),
        ("requests", "ID", "--json"),
        ("requests", HOSTILE),
        ("tools",),
        ("tools", "--json"),
        ("token", "list"),
        ("token", "list", "--json"),
        ("token", "revoke", HOSTILE),
        ("token", "create", HOSTILE, "--name", "x"),
        ("audit", "verify"),
        ("audit", "verify", "--json"),
        ("audit", "export", "--format", "json"),
        ("audit", "export", "--format", "csv"),
        ("cancel", "--tool", HOSTILE, "--wait", "0"),
        ("cancel", "--principal", HOSTILE, "--wait", "0"),
        ("cancel", "--principal", HOSTILE, "--json"),
        ("cancel", "--principal", f"no {HOSTILE}"),
        ("cancel", HOSTILE),
        ("cancel", "--session", "SESSION"),
    ],
    ids=" ".join,
)
def test_what_a_command_prints_cannot_control_the_terminal(arguments: tuple[str, ...]) -> None:
    named = {"ID": str(Request.objects.values_list("pk", flat=True)[0]), "SESSION": str(Session.objects.get().pk)}
    said = printed(*(named.get(each, each) for each in arguments)).removeprefix("\ufeff").replace("\r\n", "\n")
    assert said
    assert said == safe_text(said)


def test_callers_of_one_name_are_told_apart_by_words_that_are_safe() -> None:
    one = Request.objects.filter(status=Status.QUEUED).values_list("pk", flat=True)[0]
    Request.objects.filter(pk=one).update(subject=f"another {HOSTILE}")
    said = printed("cancel", "--principal", HOSTILE)
    assert "ISSUER,SUBJECT,CLIENT" in said
    assert said == safe_text(said)
