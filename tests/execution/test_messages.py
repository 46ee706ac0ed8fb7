"""Celery's events report a stopped call as stopped and not as successful."""

from json import dumps
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from celery import current_app
from celery.worker.request import Request, create_request_cls
from kombu.message import Message

from mcp_app.celery_adapter.request_class import ToolRequest
from mcp_app.execution.worker import run_tool
from mcp_app.states import Status


class _Listener:
    enabled = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.heard.append(kind)


def made(listener: _Listener) -> Any:
    """Return the request object that a worker makes of a message of this app."""
    kind = create_request_cls(ToolRequest, run_tool, SimpleNamespace(apply_async=None), "here", listener)
    request_id = str(uuid4())
    headers = {"id": request_id, "task": run_tool.name, "argsrepr": "()", "kwargsrepr": "{}", "lang": "py"}
    body = dumps([[request_id], {}, {}])
    message = Message(body, headers=headers, content_type="application/json", delivery_info={})
    return kind(message, app=current_app, task=run_tool, hostname="here", eventer=listener, headers=headers)


@pytest.mark.parametrize(
    ("status", "heard"),
    [(Status.COMPLETED, "task-succeeded"), (Status.FAILED, "task-succeeded"), (Status.CANCELLED, "task-revoked")],
)
def test_a_stop_is_told_as_one(status: Status, heard: str) -> None:
    listener = _Listener()
    made(listener).on_success((False, repr(status.value), 0.1))
    assert listener.heard == [heard]


def test_what_a_lost_child_may_have_stored_is_not_asked_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery would query the result in the worker's event loop."""
    assert callable(Request._success_was_stored), "Celery asks so"
    monkeypatch.setattr(
        run_tool.backend, "get_task_meta", lambda *args, **options: pytest.fail("the backend was asked")
    )
    assert not made(_Listener())._success_was_stored()
