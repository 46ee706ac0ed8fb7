"""Wake-ups reach the waiting server process, by datagram on this host and by the channel layer elsewhere."""

import functools
import os
import queue
import socket
from uuid import uuid4

import pytest

from mcp_app.lifecycle.liveness import processes, wakeups
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.states import EventKind, ProcessRole, Status
from tests.lifecycle import layers
from tests.support import rows
from tests.support.racing import PATIENCE


@pytest.fixture
def layer(settings):
    def install(name):
        settings.CHANNEL_LAYERS = {"default": {"BACKEND": name}}

    with layers.sent.mutex:
        layers.sent.queue.clear()
    return install


@pytest.fixture
def listener(server):
    with wakeups.listening_socket(server.hex) as listening:
        yield listening


def heard(listener):
    """Return the number of wake-ups that have arrived."""
    count = 0
    while True:
        try:
            listener.recv(wakeups.DATAGRAM_BYTES)
        except BlockingIOError:
            return count
        count += 1


def test_a_hint_reaches_who_listens_on_this_host(listener, server):
    wakeups.wake_server(server)
    assert heard(listener) == 1


def test_a_hint_that_nobody_hears_is_told_as_such():
    assert wakeups.hint(uuid4().hex) is False


def test_a_listener_that_hears_too_much_does_not_hold_up_who_speaks(listener, server):
    for _ in range(5000):
        assert wakeups.hint(server.hex)
    assert heard(listener) > 0


@pytest.fixture
def sender(monkeypatch):
    """A sender of wake-ups, created in the test."""
    monkeypatch.setattr(wakeups, "_sender", functools.cache(wakeups._sender.__wrapped__))
    yield lambda: wakeups._sender(os.getpid())
    wakeups._sender(os.getpid()).close()


def test_nor_where_a_site_has_its_sockets_wait(listener, server, sender):
    socket.setdefaulttimeout(60)
    try:
        for _ in range(5000):
            assert wakeups.hint(server.hex)
    finally:
        socket.setdefaulttimeout(None)


def test_a_socket_that_somebody_closed_is_made_anew(listener, server, sender):
    assert wakeups.hint(server.hex)
    sender().close()
    assert wakeups.hint(server.hex) is False
    assert wakeups.hint(server.hex)
    assert heard(listener) == 2


def test_two_listeners_have_no_name_in_common(listener, server):
    with pytest.raises(OSError, match="in use"):
        wakeups.listening_socket(server.hex)


def test_nobody_waiting_means_nobody_woken(layer):
    layer("tests.lifecycle.layers.NotingLayer")
    wakeups.wake_server(None)
    assert layers.sent.empty()


def test_a_server_on_another_host_is_woken_through_a_layer_that_crosses_processes(layer):
    layer("tests.lifecycle.layers.NotingLayer")
    server = uuid4()
    wakeups.wake_server(server)
    assert layers.sent.get(timeout=PATIENCE) == (wakeups.group(server), wakeups.layer_message())


def test_a_hint_names_what_has_changed_on_this_host_and_on_another(layer, listener, server):
    layer("tests.lifecycle.layers.NotingLayer")
    changed = {uuid4(), uuid4()}
    wakeups.wake_server(server, changed)
    assert wakeups.named(listener.recv(wakeups.DATAGRAM_BYTES)) == changed
    wakeups.wake_server(uuid4(), changed)
    _, message = layers.sent.get(timeout=PATIENCE)
    assert wakeups.named(wakeups.of_layer(message)) == changed


@pytest.mark.parametrize("many", [0, wakeups.NAMED_AT_MOST + 1])
def test_a_hint_of_nothing_or_of_too_many_names_none(listener, server, many):
    wakeups.wake_server(server, [uuid4() for _ in range(many)])
    assert wakeups.named(listener.recv(wakeups.DATAGRAM_BYTES)) is None


def test_those_that_one_server_waits_for_are_one_hint(listener, server):
    changed = {uuid4() for _ in range(5)}
    wakeups.wake_those([*((server, each) for each in changed), (None, uuid4())])
    assert wakeups.named(listener.recv(wakeups.DATAGRAM_BYTES)) == changed
    assert heard(listener) == 0


def test_a_server_on_this_host_needs_no_layer(layer, listener, server):
    layer("tests.lifecycle.layers.NotingLayer")
    wakeups.wake_server(server)
    assert heard(listener) == 1
    assert layers.sent.empty()


@pytest.mark.parametrize(
    ("name", "crosses"),
    [("channels.layers.InMemoryChannelLayer", False), ("tests.lifecycle.layers.NotingLayer", True)],
)
def test_a_layer_within_one_process_does_not_count(layer, name, crosses):
    layer(name)
    assert wakeups.layer_crosses_processes() is crosses


def test_no_layer_does_not_count_either(settings):
    settings.CHANNEL_LAYERS = {}
    assert wakeups.layer_crosses_processes() is False


@pytest.mark.fault("E4")
def test_a_layer_that_is_away_disturbs_nobody(layer, worker):
    layer("tests.lifecycle.layers.BrokenLayer")
    row = rows.running(worker, server=uuid4())
    assert transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT) == Status.COMPLETED
    assert layers.sent.get(timeout=PATIENCE)


def test_every_step_that_a_client_may_wait_for_wakes_its_server(listener, server, worker):
    row = rows.running(worker, server=server)
    heard(listener)
    transitions.record(row.pk, [Event(EventKind.PROGRESS, {"progress": 1})])
    assert heard(listener) == 1
    rows.cancel(row)
    assert heard(listener) == 1
    transitions.finish(row.pk, Status.CANCELLED, worker=worker)
    assert heard(listener) == 1


def test_a_step_that_did_not_take_wakes_nobody(listener, server, worker):
    row = rows.running(worker, server=server)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    heard(listener)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    transitions.record(row.pk, [Event(EventKind.PROGRESS, {"progress": 1})])
    rows.cancel(row)
    assert heard(listener) == 0


def test_all_living_servers_can_be_woken_and_the_stopped_are_left_alone(layer, listener):
    layer("tests.lifecycle.layers.NotingLayer")
    elsewhere, stopped = Identity(ProcessRole.SERVER), Identity(ProcessRole.SERVER)
    for identity in (elsewhere, stopped):
        processes.beat(identity)
    processes.stop(stopped)
    wakeups.wake_servers()
    assert heard(listener) == 1
    assert layers.sent.get(timeout=PATIENCE)[0] == wakeups.group(elsewhere.boot_id)
    with pytest.raises(queue.Empty):
        layers.sent.get_nowait()
