"""The identity of this worker: made once in its main process, and its children's after the fork."""

from functools import cache

from mcp_app.lifecycle.processes import Identity
from mcp_app.states import ProcessRole


@cache
def worker_identity() -> Identity:
    """This worker's boot id, host and main process. Call it in the main process before the pool forks."""
    return Identity(ProcessRole.WORKER)
