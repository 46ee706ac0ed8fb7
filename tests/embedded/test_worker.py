"""A real prefork worker on the embedded broker."""

import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from celery import Celery

from mcp_app.embedded.folder import Folder
from tests.embedded.conftest import Worker, eventually

StartWorker = Callable[..., Worker]
CONTROL_QUEUE = "w1@test.celery.pidbox"

pytestmark = pytest.mark.acceptance


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def pool_processes(app: Celery) -> list[int]:
    stats = app.control.inspect(timeout=10, limit=1).stats()
    return list(stats["w1@test"]["pool"]["processes"])


def test_tasks_run_and_a_clean_stop_leaves_no_control_queue(
    app: Celery, folder: Path, tmp_path: Path, start_worker: StartWorker
) -> None:
    worker = start_worker()
    for number in range(50):
        app.send_task("note", (str(tmp_path / "notes"), str(number)))
    eventually(lambda: len(lines(tmp_path / "notes")) >= 50)
    assert Folder(str(folder)).exists(CONTROL_QUEUE)

    assert worker.stop(signal.SIGTERM) == 0
    assert sorted(map(int, lines(tmp_path / "notes"))) == list(range(50))
    assert not Folder(str(folder)).exists(CONTROL_QUEUE)
    assert "w1@test" not in (folder / "exchanges" / "celery.pidbox.json").read_text()


def test_control_commands_are_read_while_all_slots_are_busy_and_messages_wait(
    app: Celery, folder: Path, tmp_path: Path, start_worker: StartWorker
) -> None:
    worker = start_worker()
    gate = tmp_path / "gate"
    for _ in range(6):
        app.send_task("wait_for", (str(gate),))
    eventually(lambda: worker.log.read_text().count("Task wait_for") == 2)

    assert app.control.ping(timeout=10, limit=1) == [{"w1@test": {"ok": "pong"}}]
    assert len(app.control.inspect(timeout=10, limit=1).active()["w1@test"]) == 2
    app.control.broadcast("rate_limit", {"task_name": "note", "rate_limit": "1000/s"})
    worker.wait_logged("New rate limit for tasks of type note")
    assert len(Folder(str(folder)).names("celery")) == 4, "the worker fetched what it cannot run"

    gate.touch()
    eventually(lambda: worker.log.read_text().count("succeeded") == 6)


def test_messages_beyond_the_prefetch_window_are_read_as_it_moves(
    app: Celery, tmp_path: Path, start_worker: StartWorker
) -> None:
    gate = tmp_path / "gate"
    for _ in range(2):
        app.send_task("wait_for", (str(gate),))
    for number in range(100):
        app.send_task("note", (str(tmp_path / "notes"), str(number)))
    start_worker()
    gate.touch()
    eventually(lambda: len(lines(tmp_path / "notes")) >= 100)
    assert sorted(map(int, lines(tmp_path / "notes"))) == list(range(100))


def test_a_restarted_worker_runs_what_its_killed_predecessor_left(
    app: Celery, folder: Path, tmp_path: Path, start_worker: StartWorker
) -> None:
    killed = start_worker()
    killed.stop(signal.SIGKILL)
    app.control.broadcast("shutdown")
    for number in range(20):
        app.send_task("note", (str(tmp_path / "notes"), str(number)))

    worker = start_worker()
    eventually(lambda: len(lines(tmp_path / "notes")) >= 20)
    assert sorted(map(int, lines(tmp_path / "notes"))) == list(range(20))
    assert app.control.ping(timeout=10, limit=1), "the command for the dead worker stopped its successor"
    assert worker.process.poll() is None


@pytest.mark.fault("C11")
def test_a_worker_outlives_files_that_are_no_messages_and_the_loss_of_its_queues(
    app: Celery, folder: Path, tmp_path: Path, start_worker: StartWorker
) -> None:
    worker = start_worker()
    waiting = folder / "queues" / "celery" / "new"
    (waiting / "README").write_text("hello")
    (waiting / f"{1:020d}-{1:010d}-{'0' * 32}").write_text('{"body": ')
    (waiting / f"{1:020d}-{2:010d}-{'0' * 32}").touch()
    (waiting / f"{1:020d}-{3:010d}-{'0' * 32}").write_text('{"headers": {}, "properties": {}}')
    eventually(lambda: len(list((folder / "rejected").iterdir())) == 4)

    Folder(str(folder)).remove(str(waiting.parent))
    Folder(str(folder)).remove(Folder(str(folder)).path(CONTROL_QUEUE))
    eventually(lambda: Folder(str(folder)).exists("celery") and Folder(str(folder)).exists(CONTROL_QUEUE))
    app.send_task("note", (str(tmp_path / "notes"), "alive"))
    eventually(lambda: lines(tmp_path / "notes") == ["alive"])
    assert app.control.ping(timeout=10, limit=1)
    assert worker.log.read_text().count("was set aside") == 4


def test_pool_processes_share_neither_the_watch_nor_the_reader_lock(
    app: Celery, tmp_path: Path, start_worker: StartWorker
) -> None:
    start_worker("--concurrency=1")
    (first,) = pool_processes(app)
    os.kill(first, signal.SIGKILL)
    # the successor is forked while the worker is consuming
    eventually(lambda: set(pool_processes(app)) - {first})
    app.send_task("descriptors", (str(tmp_path / "open"),))
    eventually((tmp_path / "open").exists)
    opened = (tmp_path / "open").read_text()
    assert "inotify" not in opened
    assert "/reader" not in opened
    assert app.control.ping(timeout=10, limit=1)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (self._path, "w")


@pytest.mark.fault("G14")
def test_G14_a_pickle_or_yaml_message_is_refused_and_the_next_one_is_run(
    app: Celery, tmp_path: Path, start_worker: StartWorker
) -> None:
    worker, sprung = start_worker(), tmp_path / "sprung"
    trap = pickle.dumps(((Trap(sprung),), {}, {}))
    with app.connection_for_write() as connection, connection.Producer() as producer:
        for number, (body, kind, encoding) in enumerate(
            [
                (trap, "application/x-python-serialize", "binary"),
                (b"!!python/object/apply:os.mkdir [%s]" % str(sprung).encode(), "application/x-yaml", "utf-8"),
                (b"[[], {}, {}]", "application/x-msgpack", "binary"),
            ]
        ):
            headers = {"task": "note", "id": f"foreign {number}", "lang": "py", "argsrepr": "", "kwargsrepr": ""}
            producer.publish(
                body, content_type=kind, content_encoding=encoding, headers=headers, routing_key="celery", declare=[]
            )
    app.send_task("note", (str(tmp_path / "notes"), "json"))
    eventually(lambda: lines(tmp_path / "notes") == ["json"])
    eventually(lambda: worker.log.read_text().count("Refusing to deserialize untrusted content") >= 3)
    assert not sprung.exists()
    assert "application/x-python-serialize" in worker.log.read_text()
    assert worker.stop(signal.SIGTERM) == 0
