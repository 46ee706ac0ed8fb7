"""G5: for another caller's request, task or session the database runs the same statements as for an unknown id."""

import time
from statistics import median
from uuid import uuid4

import pytest

from mcp_app import databases
from mcp_app.lifecycle import task_handles
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.input import session_inputs
from mcp_app.lifecycle.sessions import sessions
from mcp_app.states import Cause
from tests.support import rows

pytestmark = pytest.mark.fault("G5")


def statements(look):
    """Return the statements of a query, without values, and their time in seconds."""
    asked, took = [], []

    def note(execute, sql, *rest):
        asked.append(sql)
        return execute(sql, *rest)

    with databases.connection().execute_wrapper(note):
        look()
    for _ in range(15):
        began_at = time.perf_counter()
        look()
        took.append(time.perf_counter() - began_at)
    return asked, median(took)


def begin(principal):
    about = {"protocol_version": "2025-11-25", "client_info": {}, "client_capabilities": {}, "subjects": []}
    return sessions.begin(principal, **about).pk


@pytest.fixture
def anothers(worker):
    """Ada's objects by kind: the id, and the function with which Eve queries it."""
    session = begin(rows.OWNER)
    call = rows.running(worker, session=session, protocol_version="2025-11-25")
    task = str(task_handles.hand_over(rows.running(worker).pk).task_handle)
    asking = rows.asking(worker)
    return {
        "task": (task, lambda handle: task_handles.find(str(handle), rows.STRANGER)),
        "session": (session, lambda pk: sessions.find(pk, rows.STRANGER)),
        "question": (asking.pk, lambda pk: session_inputs.find(pk, 3, session=None, principal=rows.STRANGER)),
        "request": (
            call.pk,
            lambda pk: cancellation.cancel_all([CancellationRequest(pk, Cause.CLIENT, rows.ADA, "", rows.STRANGER)]),
        ),
    }


@pytest.mark.parametrize("kind", ["task", "session", "question", "request"])
def test_G5_what_is_anothers_is_looked_for_as_what_is_nobodys(anothers, kind):
    known, look = anothers[kind]
    foreign, took = statements(lambda: look(known))
    unknown, took_unknown = statements(lambda: look(uuid4()))
    assert foreign == unknown
    assert foreign
    # The times are compared coarsely, because the machine is busy with other work.
    assert max(took, took_unknown) < 10 * min(took, took_unknown) + 0.01
