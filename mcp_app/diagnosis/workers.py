"""The workers: those that their rows vouch for, held against those that answer over the broker.

A worker has two ways to be heard, and each may be lost alone: its heartbeat, by the database, from a thread of its own;
its answers, by the broker, from the loop in which it takes messages.
"""

from collections.abc import Iterator
from typing import Final

from mcp_app.diagnosis.examination import Seen
from mcp_app.diagnosis.findings import Finding, failed, ok, warning
from mcp_app.diagnosis.presences import ANSWER_SECONDS, Presence
from mcp_app.lifecycle.processes import Vouched

NAME: Final = "workers"
START: Final = "Start one: `python manage.py mcp worker`, or `python manage.py mcp serve`, which brings its own."
RESTART: Final = "See its log; once it is ended its calls are lost, and another worker takes those that wait."


def look(seen: Seen) -> Iterator[Finding]:
    """A finding for each worker that lives by either way; one if there is none that runs tools."""
    answered = {presence.boot_id: presence for presence in seen.presences or []}
    vouched = {worker.identity.boot_id: worker for worker in seen.workers}
    if not any(worker.lives for worker in vouched.values()) and not any(each.runs_tools for each in answered.values()):
        yield failed(NAME, f"None is alive{_last(seen.workers)}: calls wait, and are given up in the end.", START)
    for worker in vouched.values():
        if worker.lives:
            yield _alive(worker, answered.get(worker.identity.boot_id), asked=seen.presences is not None)
    for presence in answered.values():
        known = vouched.get(presence.boot_id)
        if known is None or not known.lives:
            yield _only_answers(presence, known)


def _alive(worker: Vouched, presence: Presence | None, *, asked: bool) -> Finding:
    identity = worker.identity
    who = f"{identity.hostname}:{identity.pid} (boot id {identity.boot_id.hex[:8]})"
    heard = f"heartbeat {max(0.0, worker.silent_for):.1f} s ago"
    if presence is not None:
        takes = ", ".join(presence.queues) or "no queue"
        return ok(NAME, f"{who}: {presence.pool}, {presence.slots} slots, {heard}, takes {takes}.")
    if not asked:
        return ok(NAME, f"{who}: {heard}. The broker could not be asked what it takes.")
    remedy = f"See that it has the same broker, and that no tool holds its process. {RESTART}"
    return warning(NAME, f"{who}: {heard}, and no answer over the broker within {ANSWER_SECONDS:g} s.", remedy)


def _only_answers(presence: Presence, known: Vouched | None) -> Finding:
    who = f"{presence.hostname}:{presence.pid} ({presence.node})"
    takes = ", ".join(presence.queues) or "no queue"
    if not presence.runs_tools:
        return ok(NAME, f"{who}: takes {takes}, and none of the tools' queues when it began.")
    if known is None:
        found = f"{who}: answers over the broker, takes {takes}, and has no row in this database."
        return warning(NAME, found, "Give it the same database: what it takes from the queue it cannot find.")
    found = f"{who}: answers over the broker, but its last heartbeat was {known.silent_for:.0f} s ago."
    return warning(NAME, found, f"See whether it reaches the database. {RESTART}")


def _last(workers: list[Vouched]) -> str:
    """When one was last heard of that did not say that it stopped."""
    if not workers:
        return ""
    last = workers[0]
    return f"; {last.identity.hostname}:{last.identity.pid} was last heard of {last.silent_for:.0f} s ago"
