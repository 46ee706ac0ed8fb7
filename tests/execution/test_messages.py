"""What those hear who listen to Celery's events: of a call that was stopped that it was, not that it succeeded."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from celery import current_app
from celery.worker.request import create_request_cls
from kombu.message import Message

from mcp_app.execution.messages import ToolRequest
from mcp_app.execution.tasks import run
from mcp_app.states import Status


class _Listener:
    enabled = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.heard.append(kind)


@pytest.mark.parametrize(
    ("status", "heard"),
    [(Status.COMPLETED, "task-succeeded"), (Status.FAILED, "task-succeeded"), (Status.CANCELLED, "task-revoked")],
)
def test_a_stop_is_told_as_one(status: Status, heard: str) -> None:
    listener, task_id = _Listener(), str(uuid4())
    made = create_request_cls(ToolRequest, run, SimpleNamespace(apply_async=None), "here", listener)
    headers = {"id": task_id, "task": run.name, "argsrepr": "()", "kwargsrepr": "{}", "lang": "py"}
    message = Message(body=[[], {}, {}], headers=headers, delivery_info={})
    request = made(message, app=current_app, task=run, hostname="here", eventer=listener, decoded=True, headers=headers)
    request.on_success((False, repr(status.value), 0.1))
    assert listener.heard == [heard]
