"""Users with different permissions in the admin, each with a browser session."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.test import Client

from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.states import ProcessRole

SEE = "view_request"
SEE_PAYLOAD = "view_request_payload"
CANCEL = "cancel_request"


@pytest.fixture
def log_in() -> Callable[..., Client]:
    """Returns a function that logs in a member of the staff with only these permissions of `mcp_app`."""

    def log_in(*permissions: str, name: str = "grace", **user_fields: bool) -> Client:
        user = User.objects.create_user(name, **{"is_staff": True} | user_fields)
        user.user_permissions.set(
            Permission.objects.filter(content_type__app_label="mcp_app", codename__in=permissions)
        )
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def operator(log_in: Callable[..., Client]) -> Client:
    return log_in(SEE, CANCEL)


@pytest.fixture
def viewer(log_in: Callable[..., Client]) -> Client:
    """Returns a user who may see everything and may not cancel."""
    return log_in(SEE, SEE_PAYLOAD, name="viewer")


def admin_messages(response: Any) -> list[str]:
    """Return the messages that the next page of the admin shows."""
    return [str(message) for message in get_messages(response.wsgi_request)]


@pytest.fixture
def worker() -> UUID:
    """Returns the boot id of a worker process that is alive."""
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    return identity.boot_id
