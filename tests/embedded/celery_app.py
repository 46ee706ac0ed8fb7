"""The Celery app of these tests' worker. Its broker is the folder that the environment names."""

import os
import time

from celery import Celery

from mcp_app.embedded.broker import register

register()
app = Celery("embedded", broker="mcpfs://")
app.conf.update(
    broker_transport_options={"folder": os.environ["BROKER_FOLDER"]},
    broker_connection_retry_on_startup=False,
    task_ignore_result=True,
)


@app.task(name="note")
def note(path: str, line: str) -> None:
    """Append one line, in one write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


@app.task(name="wait_for")
def wait_for(path: str) -> None:
    """Keep a slot busy until the file exists."""
    while not os.path.exists(path):
        time.sleep(0.01)


@app.task(name="descriptors")
def descriptors(path: str) -> None:
    """Write the open file descriptors of this pool process, one target a line."""
    targets = []
    for number in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    with open(f"{path}.tmp", "w") as file:
        file.write("\n".join(targets))
    os.rename(f"{path}.tmp", path)
