"""This app reads from the database that it writes to, even if a router sends all reads to a replica."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import connections

from mcp_app import databases
from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Request
from mcp_app.states import Cause, ProcessRole, Status
from tests.support import rows
from tests.support.asgi_client import call, post
from tests.support.legacy_asgi_client import Client
from tests.support.legacy_asgi_client import call as legacy_call
from tests.support.worker import Worker, in_thread, row


class ReplicaRouter:
    """Sends reads to the replica, as the example in Django's documentation does."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def allow_relation(self, left: Any, right: Any, **hints: Any) -> bool:
        return True


@pytest.fixture
def replica(settings: Any, transactional_db: None) -> Iterator[str]:
    """Yields the replica's alias. Tests have no access to this database, so any read from it fails."""
    connections.databases["replica"] = dict(connections.databases["default"])
    settings.DATABASE_ROUTERS = [ReplicaRouter(), *settings.DATABASE_ROUTERS]
    yield "replica"
    connections["replica"].close()
    del connections["replica"], connections.databases["replica"]


@pytest.mark.parametrize("model", list(apps.get_app_config("mcp_app").get_models()), ids=lambda model: model.__name__)
def test_every_model_is_read_where_it_is_written(replica: str, model: Any) -> None:
    own = databases.connection().alias
    assert {model.objects.all().db, model._default_manager.filter(pk=None).db} == {own}
    assert model.objects.using(replica).db == replica


def test_a_life_of_a_request_reads_nothing_from_the_replica(replica: str) -> None:
    worker = rows.alive(ProcessRole.WORKER)
    request = rows.queued()
    assert rows.cancel(request) == "accepted"
    assert request.events.count() == 3
    rows.asking(worker)
    assert rounds.supervise()
    assert cancellation.cancel(uuid4(), cause=Cause.ADMIN, actor=SYSTEM) == "unknown"


async def test_calls_of_both_eras_are_served(replica: str, worker: Worker) -> None:
    client = await post(call())
    request_id = await worker.claim()
    await worker.finish(request_id)
    assert "result" in await client.json()
    session = await Client.opened()
    answer = await session.post(legacy_call(request_id=7))
    request_id = await worker.claim()
    await worker.finish(request_id)
    await answer.head()
    assert (await row(request_id)).status == Status.COMPLETED
    assert await in_thread(Request.objects.count) == 2
