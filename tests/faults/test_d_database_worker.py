"""D: the database fails while a worker's main process receives a message. The main process goes on."""

import uuid
from collections.abc import Iterator

import pytest
from celery import current_app
from celery.utils.imports import symbol_by_name
from celery.worker import state as worker_state
from kombu.message import Message
from kombu.serialization import dumps

from mcp_app.execution.worker import run_tool
from tests.support.failing_database import locked

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture
def revoked_id() -> Iterator[str]:
    """The id of a queued request that was cancelled, which the worker knows as revoked."""
    request_id = str(uuid.uuid4())
    worker_state.revoked.update([request_id])
    yield request_id
    worker_state.revoked.discard(request_id)


@pytest.mark.fault("D2")
def test_D2_a_revoked_message_is_dropped_while_the_database_cannot_be_written(revoked_id: str) -> None:
    task = current_app.amqp.as_task_v2(revoked_id, run_tool.name, args=(revoked_id,), ignore_result=False)
    content_type, content_encoding, body = dumps(task.body, "json")
    message = Message(
        body=body,
        content_type=content_type,
        content_encoding=content_encoding,
        headers=task.headers,
        properties=task.properties,
        delivery_info={},
    )
    request = symbol_by_name(run_tool.Request)(message, app=current_app, task=run_tool)
    with locked():
        assert request.revoked()
