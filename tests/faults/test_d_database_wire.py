"""D: the responses to clients while the database rejects writes."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import timedelta

import pytest
from django.db.models import F

from mcp_app.auth.principal import ANONYMOUS
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.lifecycle.database import retries
from mcp_app.lifecycle.sessions import sessions
from mcp_app.models import Session
from mcp_app.protocol.tasks import CAPABILITY
from mcp_app.states import TaskMode
from mcp_app.tools import tool
from mcp_app.transport.process import cancellations
from tests.support.asgi_client import META, call, message, post, run
from tests.support.failing_database import audit_refused, locked
from tests.support.worker import Worker, in_thread, row

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

KNOWS = {META + "clientCapabilities": {**CAPABILITY}}


@asynccontextmanager
async def in_threads(failing: AbstractContextManager[None]) -> AsyncIterator[None]:
    await in_thread(failing.__enter__)
    try:
        yield
    finally:
        await in_thread(failing.__exit__, None, None, None)


@pytest.mark.fault("D2")
def test_D7_a_task_is_not_said_to_be_cancelled_before_that_is_stored(configure, monkeypatch) -> None:
    configure(ALLOW_ANONYMOUS=True, ALLOWED_HOSTS=["testserver"], DRAIN_SECONDS=0.1)
    monkeypatch.setattr(cancellations, "RETRY_DELAYS", (0.0, 0.0))

    async def scenario(worker: Worker) -> None:
        created = (await (await post(call("job", meta=KNOWS))).json())["result"]
        request = await row(await worker.claim())
        cancel = message("tasks/cancel", meta=KNOWS, taskId=created["taskId"])
        async with in_threads(audit_refused(of=request)):
            refused = await post(cancel)
            assert "error" in await refused.json()
            assert refused.status == 503
        assert (await row(request.pk)).cancel_requested_at is None
        assert (await (await post(cancel)).json())["result"]
        assert (await row(request.pk)).cancel_cause == "client"
        await worker.finish(request.pk)

    with isolated_registries(), Worker.at_work() as worker:

        @tool(task=TaskMode.ALWAYS)
        def job() -> str:
            """Do a job as a task."""
            return ""

        run(scenario(worker))


def test_D1_a_session_is_found_though_its_sign_of_life_cannot_be_noted(monkeypatch) -> None:
    monkeypatch.setattr(retries, "FIRST_DELAY", 0.0001)
    session = sessions.begin(
        ANONYMOUS, protocol_version="2025-11-25", client_info={}, client_capabilities={}, subjects=[]
    )
    Session.objects.update(seen_at=F("seen_at") - timedelta(seconds=2 * sessions.SEEN_SECONDS))
    before = Session.objects.get().seen_at
    with locked():
        assert sessions.find(session.pk, ANONYMOUS) == session
    assert Session.objects.get().seen_at == before
