"""What those hear who listen to Celery's events: of a call that was stopped that it was, not that it succeeded."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from celery import current_app
from celery.worker.request import Request, create_request_cls
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


def made(listener: _Listener) -> Any:
    """What a worker holds of a message of ours."""
    kind = create_request_cls(ToolRequest, run, SimpleNamespace(apply_async=None), "here", listener)
    headers = {"id": str(uuid4()), "task": run.name, "argsrepr": "()", "kwargsrepr": "{}", "lang": "py"}
    message = Message(body=[[], {}, {}], headers=headers, delivery_info={})
    return kind(message, app=current_app, task=run, hostname="here", eventer=listener, decoded=True, headers=headers)


@pytest.mark.parametrize(
    ("status", "heard"),
    [(Status.COMPLETED, "task-succeeded"), (Status.FAILED, "task-succeeded"), (Status.CANCELLED, "task-revoked")],
)
def test_a_stop_is_told_as_one(status: Status, heard: str) -> None:
    listener = _Listener()
    made(listener).on_success((False, repr(status.value), 0.1))
    assert listener.heard == [heard]


def test_what_a_lost_child_may_have_stored_is_not_asked_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the worker's event loop; and of a call that asked its user it would be the result of the run before."""
    assert callable(Request._success_was_stored), "Celery asks so"
    monkeypatch.setattr(run.backend, "get_task_meta", lambda *args, **options: pytest.fail("the backend was asked"))
    assert not made(_Listener())._success_was_stored()
