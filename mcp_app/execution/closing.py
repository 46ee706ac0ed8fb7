"""The end of a worker's process whose threads did not end: the process replaces itself by this, which then says so.

`exec` ends every thread of a process before the new program begins: that is the proof on which their requests become
CANCELLED. The process keeps its id, so whoever waits for the worker waits for this. Refuses to go on for long: what it
cannot write supervision finds as the calls of a silent worker.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Iterable
from typing import NoReturn
from uuid import UUID

logger = logging.getLogger(__name__)

SECONDS = 30
"""What it is given, from its start to its end."""
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from mcp_app.execution import closing
closing.main()
"""


def replace_process(worker: UUID, request_ids: Iterable[UUID]) -> NoReturn:
    """End every thread of this process and have the worker's requests closed, whose cancellation was asked for.

    From any thread. Needs DJANGO_SETTINGS_MODULE in the environment, as Celery's workers do.
    """
    # Mask and alarm outlive exec. Told to stop again, it is about to.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
    signal.alarm(SECONDS)
    arguments = [json.dumps(sys.path), str(worker), *map(str, request_ids)]
    os.execv(sys.executable, [sys.executable, "-c", _PROGRAM, *arguments])  # noqa: S606 - our own command line


def main() -> None:
    """The program."""
    import django

    django.setup()
    from mcp_app.lifecycle import processes as liveness
    from mcp_app.states import ProcessRole

    worker, *request_ids = map(UUID, sys.argv[2:])
    for request_id in request_ids:
        try:
            close(worker, request_id)
        except Exception:
            logger.exception("request %s could not be closed", request_id)
    liveness.stop(liveness.Identity(ProcessRole.WORKER, boot_id=worker))


def close(worker: UUID, request_id: UUID) -> None:
    """Close the row of a call whose thread has ended with its process."""
    from mcp_app.execution import processes
    from mcp_app.lifecycle import transitions
    from mcp_app.states import Stage, Status

    processes.kill_all(request_id)
    error = {"cause": "shutdown", "message": "its thread ended with its worker's process"}
    transitions.finish(request_id, Status.CANCELLED, worker=worker, stage=Stage.KILL, error=error)
