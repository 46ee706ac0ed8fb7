"""Check the workers: compare the rows of the database with the answers over the broker.

A worker shows in two ways that it is alive, and each can fail alone. Its heartbeat goes to the
database, from a thread of its own. Its answers go to the broker, from the loop that receives
messages.
"""

from collections.abc import Iterator
from typing import Final

from mcp_app.diagnosis.examination import Finding, SharedFacts, failed, ok, warning
from mcp_app.diagnosis.worker_ping import ANSWER_SECONDS, WorkerAnswer
from mcp_app.lifecycle.liveness.processes import KnownProcess

NAME: Final = "workers"
START: Final = "Start one: `python manage.py mcp worker`, or `python manage.py mcp serve`, which starts its own."
RESTART: Final = (
    "Read its log. When it has ended, its running calls are lost, and another worker takes the waiting ones."
)


def check(shared: SharedFacts) -> Iterator[Finding]:
    """Check the workers. Yields a finding for each that is alive in one of the two ways.

    If none of them runs tools, the first finding reports that.
    """
    answered = {answer.boot_id: answer for answer in shared.worker_answers or []}
    vouched = {worker.identity.boot_id: worker for worker in shared.workers}
    if not any(worker.lives for worker in vouched.values()) and not any(each.runs_tools for each in answered.values()):
        last = _describe_last(shared.workers)
        yield failed(NAME, f"No worker for tools is alive{last}: calls wait until they time out.", START)
    for worker in vouched.values():
        if worker.lives:
            yield _describe_alive(
                worker, answered.get(worker.identity.boot_id), asked=shared.worker_answers is not None
            )
    for answer in answered.values():
        known = vouched.get(answer.boot_id)
        if known is None or not known.lives:
            yield _describe_without_heartbeat(answer, known)


def _describe_alive(worker: KnownProcess, answer: WorkerAnswer | None, *, asked: bool) -> Finding:
    identity = worker.identity
    name = f"{identity.hostname}:{identity.pid} (boot id {identity.boot_id.hex[:8]})"
    heartbeat = f"heartbeat {max(0.0, worker.silent_for):.1f} s ago"
    if answer is not None:
        takes = ", ".join(answer.queues) or "no queue"
        return ok(NAME, f"{name}: {answer.pool}, {answer.slots} slots, {heartbeat}, takes {takes}.")
    if not asked:
        return ok(NAME, f"{name}: {heartbeat}. The broker could not be asked which queues it consumes.")
    remedy = f"Check that it uses the same broker, and that no tool blocks its process. {RESTART}"
    return warning(NAME, f"{name}: {heartbeat}, and no response over the broker within {ANSWER_SECONDS:g} s.", remedy)


def _describe_without_heartbeat(answer: WorkerAnswer, known: KnownProcess | None) -> Finding:
    name = f"{answer.hostname}:{answer.pid} ({answer.node})"
    takes = ", ".join(answer.queues) or "no queue"
    if not answer.runs_tools:
        return ok(NAME, f"{name}: takes {takes}, and none of the tools' queues when it started.")
    if known is None:
        found = f"{name}: responds over the broker, consumes {takes}, and has no row in this database."
        return warning(
            NAME, found, "Give it the same database: it cannot find the requests that it takes from the queue."
        )
    found = f"{name}: responds over the broker, but its last heartbeat was {known.silent_for:.0f} s ago."
    return warning(NAME, found, f"Check that it can reach the database. {RESTART}")


def _describe_last(workers: list[KnownProcess]) -> str:
    """Describe the last heartbeat of a worker that has not been stopped, if there is one."""
    if not workers:
        return ""
    last = workers[0]
    return f"; {last.identity.hostname}:{last.identity.pid} sent its last heartbeat {last.silent_for:.0f} s ago"
