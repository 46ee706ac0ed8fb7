"""Requests that other requests started, stored as a running tool does."""

from uuid import UUID, uuid4

from mcp_app.lifecycle import children
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Request
from tests.support import rows


def child(parent: Request, **changes) -> Request:
    """A queued call that `parent`'s tool started."""
    parent = rows.fresh(parent)
    changes = {"parent": parent.pk, "depth": parent.depth + 1, "id": uuid4()} | changes
    return children.submit(rows.submission(**changes), worker=parent.worker)


def running_child(parent: Request, worker: UUID, **changes) -> Request:
    row = transitions.claim(child(parent, **changes).pk, worker=worker, pid=4712)
    assert row is not None
    return row
