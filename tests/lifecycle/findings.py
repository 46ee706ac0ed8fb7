"""The requests that each step of supervision must find, according to the model.

Reasons are in the words of `stored.REASONS`.
"""

from mcp_app.lifecycle.sessions import call_connections
from mcp_app.lifecycle.supervision import rounds
from tests.lifecycle.model import older

LOST_AFTER, ABANDONED_AFTER = 10.0, 40.0


def lost_with_their_workers(machine):
    for life in machine.lives:
        if life.status == "running" and machine.is_silent(life.worker):
            life.lose(machine.now)


def of_lost_servers(machine):
    for life in machine.lives:
        awaited = life.status in ("queued", "running") and life.session is None and life.server is not None
        awaited = awaited and life.cancelled_by is None and machine.is_silent(life.server)
        if awaited and older(life.queued_at, machine.now, LOST_AFTER):
            life.cancel("lost_server", "system", "server process", None, machine.now)


def left(machine):
    for life in machine.lives:
        followed = life.session is not None and life.open and life.left_at is None and life.server is not None
        if followed and older(life.submitted_at, machine.now, LOST_AFTER) and machine.is_silent(life.server):
            life.left_at = machine.now


def abandoned(machine):
    for life in machine.lives:
        left = life.session is not None and life.open and life.cancelled_by is None
        if left and older(life.left_at, machine.now, ABANDONED_AFTER):
            life.cancel("abandoned", "system", "no client", None, machine.now)


def overdue(machine):
    why = {"queued": "no worker", "input_required": "question"}
    for life in machine.lives:
        if life.status in why and life.cancelled_by is None and older(life.deadline_at, machine.now, 0):
            life.cancel("deadline", "system", why[life.status], None, machine.now)


def expired(machine):
    for life in machine.lives:
        if life.open and life.cancelled_by is None and older(life.expires_at, machine.now, 0):
            life.cancel("deadline", "system", "expired", None, machine.now)


SUPERVISED = {
    "workers": (rounds.lose_requests_of_silent_workers, lost_with_their_workers),
    "servers": (rounds.cancel_requests_of_silent_servers, of_lost_servers),
    "left": (call_connections.disconnect_calls_of_silent_servers, left),
    "abandoned": (call_connections.cancel_abandoned_calls, abandoned),
    "overdue": (rounds.cancel_overdue_requests, overdue),
    "expired": (rounds.cancel_expired_tasks, expired),
}
"""The steps and the requests that they must find, in the order of a round."""
