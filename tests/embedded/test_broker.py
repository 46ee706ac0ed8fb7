"""The guarantees of the embedded broker, without Celery: kombu connections on one folder."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.asynchronous import Hub
from kombu.exceptions import OperationalError

from mcp_app.embedded import readers, watch
from mcp_app.embedded.folder import Folder, encode
from tests.embedded.conftest import ROOT, eventually

Connect = Callable[[], Connection]


def publish(connection: Connection, queue: str, *bodies: Any) -> None:
    producer = Producer(connection.default_channel)
    for body in bodies:
        producer.publish(body, routing_key=queue)


def received(connection: Connection, queue: str) -> list[Any]:
    """Receive all messages of a queue, in order."""
    bodies = []
    while (message := connection.default_channel.basic_get(queue, no_ack=True)) is not None:
        bodies.append(message.payload)
    return bodies


def on_loop(hub: Hub, condition: Callable[[], bool]) -> None:
    """Run the event loop until the condition holds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        hub.run_once()


def open_descriptors() -> set[tuple[str, str]]:
    """Return each open file descriptor's number and file."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


def test_everything_in_the_folder_is_for_its_own_user_alone(folder: Path, connect: Connect) -> None:
    for name in ("queues", "exchanges"):  # as if a user had created them
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(0o777)
    before = os.umask(0o022)
    try:
        connection = connect()
        Queue("bound", Exchange("all", type="fanout"), channel=connection.default_channel).declare()
        publish(connection, "waiting", 1)
    finally:
        os.umask(before)
    assert {path.name for path in folder.rglob("*")} >= {"waiting", "new", "cur", "all.json", "lock"}
    assert [path for path in folder.rglob("*") if path.stat().st_mode & 0o077] == []


@pytest.mark.fault("C11")
def test_two_reader_processes_lose_and_repeat_nothing(folder: Path, connect: Connect) -> None:
    command = [sys.executable, "-m", "tests.embedded.reader", str(folder)]
    processes = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "consuming\n"
        publish(connect(), "load", *range(2000))
        eventually(lambda: Folder(str(folder)).names("load") == [])
        for _ in processes:
            publish(connect(), "load", -1)
            # a reader stops at its first -1, so the second one ends the other reader
            eventually(lambda: Folder(str(folder)).names("load") == [])
        bodies = [int(line) for process in processes for line in process.communicate(timeout=20)[0].split()]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert sorted(bodies) == [-1, -1, *range(2000)]


def test_messages_come_in_the_order_they_were_sent(connect: Connect) -> None:
    publish(connect(), "load", *range(100))
    assert received(connect(), "load") == list(range(100))


def test_many_threads_may_publish_at_once(connect: Connect) -> None:
    shared = connect()
    threads = [
        threading.Thread(target=publish, args=(shared, "load", *((thread, n) for n in range(50))))
        for thread in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bodies = [tuple(body) for body in received(connect(), "load")]
    assert len(set(bodies)) == len(bodies) == 400


@pytest.mark.parametrize(
    "other", ["x.celery", "celery.x", "Celery", "../celery", "celery/new", "celery/../celery", "%63elery", ""]
)
def test_queues_with_similar_names_are_apart_and_inside_the_folder(other: str, folder: Path, connect: Connect) -> None:
    connection = connect()
    folder_ = connection.transport.folder
    folder_.prepare()
    folder_.put("celery", b"mine", create=True)
    folder_.put(other, b"other", create=True)
    assert [folder_.take("celery", name, bytes) for name in folder_.names("celery")] == [b"mine"]
    assert [folder_.take(other, name, bytes) for name in folder_.names(other)] == [b"other"]
    assert Path(folder_.path(other)).resolve().parent == folder / "queues"


def test_long_names_are_shortened_and_stay_apart() -> None:
    names = {encode("q" * length) for length in range(155, 2000)} | {encode("é" * 500), encode("é" * 501)}
    assert len(names) == 1847
    assert max(map(len, names)) <= 160


def test_a_fanout_exchange_reaches_every_queue_also_one_bound_later_elsewhere(connect: Connect) -> None:
    exchange = Exchange("news", type="fanout", durable=False)
    sender = connect()
    producer = Producer(sender.default_channel, exchange=exchange)
    producer.publish("nobody")
    first, second = connect(), connect()
    Queue("a", exchange)(first.default_channel).declare()
    producer.publish("one")
    Queue("b", exchange)(second.default_channel).declare()
    producer.publish("two")
    assert received(first, "a") == ["one", "two"]
    assert received(second, "b") == ["two"]


def test_topic_and_direct_exchanges_choose_by_routing_key(connect: Connect) -> None:
    connection = connect()
    for type_ in ("topic", "direct"):
        exchange = Exchange(f"by-{type_}", type=type_)
        Queue(f"{type_}-1", exchange, routing_key="a.b")(connection.default_channel).declare()
        Queue(f"{type_}-2", exchange, routing_key="a.*")(connection.default_channel).declare()
        producer = Producer(connection.default_channel, exchange=exchange)
        producer.publish("ab", routing_key="a.b")
        producer.publish("ac", routing_key="a.c")
    assert [received(connection, f"topic-{n}") for n in (1, 2)] == [["ab"], ["ab", "ac"]]
    assert [received(connection, f"direct-{n}") for n in (1, 2)] == [["ab"], []]


def test_unbinding_and_deleting_hold_for_every_process(connect: Connect) -> None:
    exchange = Exchange("news", type="fanout")
    channel = connect().default_channel
    queues = [Queue(name, exchange)(channel) for name in ("a", "b", "c")]
    for queue in queues:
        queue.declare()
    queues[0].unbind_from(exchange)
    queues[1].delete()
    Producer(connect().default_channel, exchange=exchange).publish("one")
    assert [queue.get() is not None for queue in queues] == [False, False, True]
    assert not connect().default_channel._has_queue("b")


def test_size_and_purge_count_the_waiting_messages(connect: Connect) -> None:
    publish(connect(), "load", 1, 2, 3)
    channel = connect().default_channel
    assert channel.queue_declare("load").message_count == 3
    assert channel.queue_purge("load") == 3
    assert received(connect(), "load") == []


@pytest.mark.fault("C11")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"body": 1, "headers": {}, "properties": {"delivery_tag": "1", "delivery_info": {}}}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_message_is_set_aside_once(
    content: bytes, folder: Path, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    publish(connect(), "load", "before")
    (folder / "queues" / "load" / "new" / f"{1:020d}-{1:010d}-{'a' * 32}").write_bytes(content)
    publish(connect(), "load", "after")
    reader = connect()
    assert received(reader, "load") == ["before", "after"]
    assert received(reader, "load") == []
    assert [path.read_bytes() for path in (folder / "rejected").iterdir()] == [content]
    assert len(caplog.records) == 1


def test_pipes_links_and_folders_are_set_aside_without_blocking(folder: Path, connect: Connect) -> None:
    publish(connect(), "load", "real")
    new = folder / "queues" / "load" / "new"
    os.mkfifo(new / f"{1:020d}-{1:010d}-{'a' * 32}")
    (new / f"{1:020d}-{2:010d}-{'a' * 32}").symlink_to("/etc/hostname")
    (new / "folder").mkdir()
    assert received(connect(), "load") == ["real"]
    assert len(list((folder / "rejected").iterdir())) == 3


def test_a_message_whose_reader_died_while_reading_is_read_by_the_next(
    folder: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(connect(), "load", "one")
    (name,) = Folder(str(folder)).names("load")
    queue = folder / "queues" / "load"
    (queue / "new" / name).rename(queue / "cur" / name)
    assert received(connect(), "load") == []
    monkeypatch.setattr("mcp_app.embedded.folder.CLAIM_SECONDS", -1.0)
    connect().transport.readers.prune()
    assert received(connect(), "load") == ["one"]


def test_what_a_closed_reader_did_not_acknowledge_is_delivered_again(connect: Connect) -> None:
    publish(connect(), "load", "one")
    reader = connect()
    assert reader.default_channel.basic_get("load").payload == "one"
    assert received(connect(), "load") == []
    reader.close()
    assert received(connect(), "load") == ["one"]


def test_publishing_into_a_folder_that_refuses_is_an_operational_error(folder: Path, connect: Connect) -> None:
    folder.write_text("a file where the folder should be")
    with pytest.raises(OperationalError):
        publish(connect(), "load", "one")


def test_a_connection_without_a_folder_is_refused() -> None:
    with pytest.raises(ValueError, match="broker_transport_options"):
        Connection("mcpfs://").transport  # noqa: B018


def node_queue(name: str, channel: Any) -> Queue:
    exchange = Exchange("celery.pidbox", type="fanout", durable=False)
    return Queue(f"{name}.celery.pidbox", exchange, durable=False, exclusive=True, auto_delete=True)(channel)


def test_the_control_queue_of_a_dead_worker_is_pruned_and_a_living_ones_is_kept(
    folder: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "PRUNE_SECONDS", 0.0)
    dead, living = connect(), connect()
    node_queue("dead", dead.default_channel).declare()
    with Consumer(living.default_channel, [node_queue("living", living.default_channel)]):
        for name in ("dead", "living"):
            reader = Folder(str(folder)).path(f"{name}.celery.pidbox", "reader")
            os.utime(reader, (0, time.time() - 61))
        Producer(connect().default_channel, exchange=Exchange("celery.pidbox", "fanout")).publish("ping")
        assert not Folder(str(folder)).exists("dead.celery.pidbox")
        assert len(Folder(str(folder)).names("living.celery.pidbox")) == 1
        assert "dead" not in (folder / "exchanges" / "celery.pidbox.json").read_text()
    assert os.listdir(folder / "queues") == []


def test_control_messages_nobody_came_for_are_dropped(folder: Path, connect: Connect) -> None:
    reader = connect()
    queue = node_queue("slow", reader.default_channel)
    with Consumer(reader.default_channel, [queue]):
        Producer(connect().default_channel, exchange=Exchange("celery.pidbox", "fanout")).publish("old")
        new = folder / "queues" / "slow.celery.pidbox" / "new"
        (name,) = os.listdir(new)
        (new / name).rename(new / f"{time.time_ns() - 61 * 10**9:020d}{name[20:]}")
        with pytest.raises(Empty):
            reader.default_channel._get("slow.celery.pidbox")
        assert os.listdir(new) == []


@pytest.mark.parametrize("inotify", [True, False])
def test_a_reader_on_the_event_loop_is_woken_by_files_and_by_acknowledgements(
    inotify: bool, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError("no inotify here")

    if not inotify:
        monkeypatch.setattr(watch, "Inotify", refuse)
    else:
        monkeypatch.setattr(watch, "MAINTAIN_SECONDS", 3600.0)
    hub, reader, messages = Hub(), connect(), []
    hub.call_repeatedly(0.01, lambda: None)  # one turn ends soon, even if nothing happens
    reader.register_with_event_loop(hub)
    channel = reader.default_channel
    channel.basic_qos(0, 2, False)
    consumer = Consumer(channel, [Queue("load")], on_message=messages.append)
    try:
        with consumer:
            publish(connect(), "load", *range(5))
            on_loop(hub, lambda: len(messages) == 2)
            for taken in range(3):
                messages[taken].ack()
                on_loop(hub, lambda: len(messages) == taken + 3)  # noqa: B023
            assert [message.payload for message in messages] == [0, 1, 2, 3, 4]
    finally:
        reader.close()
        hub.close()


def test_closed_connections_leave_no_descriptor_open(connect: Connect) -> None:
    def use() -> None:
        hub, reader = Hub(), connect()
        reader.register_with_event_loop(hub)
        with Consumer(reader.default_channel, [node_queue("w", reader.default_channel)]):
            publish(connect(), "load", "one")
            reader.close()
        hub.close()

    use()
    before = open_descriptors()
    for _ in range(5):
        use()
    assert not open_descriptors() - before  # descriptors of other tests may be closed at the same time
