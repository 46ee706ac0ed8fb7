"""The program that replaces a worker's process whose threads did not end.

`exec` ends all threads of a process before the new program begins. This proves that their calls
have stopped, so the new program can close their rows as CANCELLED. The process keeps its id, so a
service manager that waits for the worker waits for this program. It has SECONDS to finish; rows
that it does not close are found by supervision as rows of a silent worker.
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
"""How long the program may run."""
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from mcp_app.execution.pools import closing
closing.main()
"""


def replace_process(worker: UUID, request_ids: Iterable[UUID]) -> NoReturn:
    """End all threads of this process, and close the worker's requests that were to be cancelled.

    Safe in any thread. DJANGO_SETTINGS_MODULE must be in the environment, as in any Celery worker.
    """
    # Mask and alarm survive exec. Further signals to stop are ignored, because it stops anyway.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
    signal.alarm(SECONDS)
    arguments = [json.dumps(sys.path), str(worker), *map(str, request_ids)]
    os.execv(sys.executable, [sys.executable, "-c", _PROGRAM, *arguments])  # noqa: S606 - our own command line


def main() -> None:
    """The program."""
    import django

    django.setup()
    from mcp_app.lifecycle.liveness import processes as liveness
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
    from mcp_app.execution.stopping import processes
    from mcp_app.lifecycle.requests import transitions
    from mcp_app.states import Stage, Status

    processes.kill_all(request_id)
    error = {"cause": "shutdown", "message": "its thread ended when its worker process ended"}
    transitions.finish(request_id, Status.CANCELLED, worker=worker, stage=Stage.KILL, error=error)
