"""The bare Celery app: one empty task on the site's broker, result backend and options.

Its worker sends a datagram when the result of a task is stored, so that the comparison contains no polling.
"""

import os
import socket
from functools import cache
from typing import Any

from celery import Celery
from celery.signals import task_success

from bench.floor_worker import INBOX
from mcp_app.embedded.broker import register

register()
app = Celery("bench")
app.config_from_object("django.conf:settings", namespace="CELERY")


@app.task(name="bench.empty")  # type: ignore[untyped-decorator]  # Celery ships no types
def empty() -> None:
    """Do nothing."""


@task_success.connect  # type: ignore[untyped-decorator]  # Celery ships no types
def announce(sender: Any, **kwargs: Any) -> None:
    """Send the id of the task to the inbox. Celery calls this once the result is stored."""
    _socket().sendto(str(sender.request.id).encode(), os.environ[INBOX])


@cache
def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
