"""The complete tools of import-with-progress.md, long-report.md and approve-before-delete.md run as described."""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.test.utils import isolate_apps

from mcp_app.models import Request
from mcp_app.testing.client import Client
from mcp_app.testing.outcomes import MCPError
from mcpsite import models
from tests.docs.conftest import Execute
from tests.docs.pages import executed, snippet, snippets
from tests.interaction.tasks import result_of
from tests.support.asgi_client import Connection
from tests.support.worker import Worker, in_thread

STOPPED: dict[str, Any] = {"imported": 500, "total": 1200}


@pytest.fixture
def importing(execute: Execute, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the page about imports. Its model is the example site's."""
    monkeypatch.setitem(sys.modules, "shop", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "shop.models", models)
    return execute(
        snippet("how-to/import-with-progress.md#import-a-file-with-progress-and-a-clean-stop:2"),
        snippet("how-to/import-with-progress.md#test-it"),
    )


@isolate_apps("mcpsite")
def test_the_model_of_the_imports_has_what_they_need_of_the_example_sites() -> None:
    block = snippet("how-to/import-with-progress.md#import-a-file-with-progress-and-a-clean-stop")
    shown, theirs = (
        {field.name: (type(field), field.unique, field.max_length) for field in model._meta.fields}
        for model in (executed(block, __name__="mcpsite.models")["Contact"], models.Contact)
    )
    assert list(shown) == ["id", "email", "name"]
    assert shown.items() <= theirs.items()


def test_a_stopped_import_keeps_whole_batches(
    mcp_client: Client, importing: dict[str, Any], settings: Any, tmp_path: Any
) -> None:
    importing["test_a_stopped_import_keeps_whole_batches"](mcp_client, settings, tmp_path)


def test_a_failed_import_keeps_the_batches_before_it(
    mcp_client: Client, importing: dict[str, Any], settings: Any, tmp_path: Any
) -> None:
    settings.UPLOADS = tmp_path
    mcp_client.raise_request_exception = False
    lines = "".join(f"{number}@example.com,Ada\n" for number in range(700))
    (tmp_path / "contacts.csv").write_text(f"email,name\n{lines}only-an-address@example.com\n")
    failed = mcp_client.call("import_contacts", file="contacts.csv")
    assert failed.is_error
    assert failed.progress == [(500, 701, "500 of 701 rows imported")]
    assert models.Contact.objects.count() == 500


@pytest.mark.parametrize("name", ["missing.csv", "../contacts.csv", "..", "wrong.csv"])
def test_an_import_of_another_file_is_refused(
    mcp_client: Client, importing: dict[str, Any], settings: Any, tmp_path: Any, name: str
) -> None:
    settings.UPLOADS = tmp_path / "uploads"
    settings.UPLOADS.mkdir()
    (tmp_path / "contacts.csv").write_text("email,name\nada@example.com,Ada\n")
    (settings.UPLOADS / "wrong.csv").write_text("name\nAda\n")
    assert mcp_client.call("import_contacts", file=name).is_error
    assert not models.Contact.objects.exists()


@pytest.fixture
def approving(execute: Execute, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the page about approvals. Its model is the example site's."""
    monkeypatch.setitem(sys.modules, "shop", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "shop.models", models)
    return execute(*snippets("how-to/approve-before-delete.md"))


@pytest.mark.parametrize(
    "name",
    [
        "test_contacts_are_deleted_after_approval",
        "test_nothing_is_deleted_without_approval",
        "test_contacts_that_the_question_did_not_name_are_kept",
    ],
)
def test_contacts_are_deleted_only_as_their_user_approved(
    mcp_client: Client, admin_user: Any, approving: dict[str, Any], name: str
) -> None:
    approving[name](mcp_client, admin_user)


def test_more_contacts_than_the_limit_are_not_deleted(
    mcp_client: Client, admin_user: Any, approving: dict[str, Any]
) -> None:
    mcp_client.force_login(admin_user)
    approving["add_contacts"]("ada", "ben")
    approving["MOST"] = 1
    refused = mcp_client.call("delete_contacts", domain="example.com")
    assert refused.is_error
    assert "more than 1 such" in refused.text
    assert models.Contact.objects.count() == 2


def test_a_client_that_cannot_be_asked_deletes_nothing(
    mcp_client: Client, admin_user: Any, approving: dict[str, Any]
) -> None:
    mcp_client.force_login(admin_user)
    approving["add_contacts"]("ada")
    mcp_client.capabilities = {}
    with pytest.raises(MCPError) as refused:
        mcp_client.call("delete_contacts", domain="example.com")
    assert refused.value.code == -32021
    assert models.Contact.objects.count() == 1


def test_the_report_has_a_line_for_each_month(mcp_client: Client, execute: Execute) -> None:
    names = execute(
        snippet("how-to/long-report.md#a-long-report-as-a-task"),
        snippet("how-to/long-report.md#test-it"),
        total_of=lambda year, month: year * month,
    )
    names["test_the_report_has_a_line_for_each_month"](mcp_client)


@pytest.fixture
def worker() -> Iterator[Worker]:
    """The worker, played by the test."""
    with Worker.at_work() as worker:
        yield worker


async def sent_by(command: str) -> Connection:
    """Post what a command of curl would send, with its headers only."""
    curl = argparse.ArgumentParser()
    curl.add_argument("-H", action="append")
    curl.add_argument("-d")
    options, _ = curl.parse_known_args(shlex.split(command.replace("-sS ", "")))
    fields = [field.split(": ", 1) for field in options.H]
    client = Connection(headers={name.lower(): value for name, value in fields})
    await client.send(options.d.encode())
    return client


@pytest.mark.django_db(transaction=True, databases="__all__")
async def test_a_client_polls_for_a_slow_report(worker: Worker, execute: Execute, configure: Any) -> None:
    first, shown, then = (block.text for block in snippets("how-to/long-report.md#how-clients-poll"))
    task = json.loads(shown)
    configure(ALLOW_ANONYMOUS=True, ALLOWED_HOSTS=["testserver"], SSE_AFTER=10.0)
    execute(snippet("how-to/long-report.md#a-long-report-as-a-task"), total_of=lambda year, month: 0)
    client = await sent_by(first)
    request_id = await worker.claim()
    created = (await client.json())["result"]
    assert created.keys() - {"_meta"} == task.keys()
    same = ("resultType", "status", "ttlMs", "pollIntervalMs")
    assert {name: created[name] for name in same} == {name: task[name] for name in same}
    await in_thread(Request.objects.filter(pk=request_id).update, progress_message="March is done")
    now = (await (await sent_by(then.replace(task["taskId"], created["taskId"]))).json())["result"]
    assert (now["status"], now["statusMessage"]) == ("working", "March is done")
    await worker.finish(request_id, text="# Sales in 2026")
    now = await result_of("tasks/get", created["taskId"])
    assert (now["status"], now["result"]["content"][0]["text"]) == ("completed", "# Sales in 2026")
