"""The world of the state machine: requests, principals and processes, and comparisons with the model."""

import time

from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
)

from mcp_app import databases
from mcp_app.lifecycle.audit import sealing, verification
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.sessions import sessions
from mcp_app.lifecycle.supervision import purging, rounds
from mcp_app.models import AuditDay, Cancellation, Process, Request, Session
from mcp_app.states import Cause, ProcessRole
from tests.lifecycle.ageing import REQUEST_TIMES
from tests.lifecycle.findings import ABANDONED_AFTER, LOST_AFTER, SUPERVISED
from tests.lifecycle.model import OPEN, Life, older
from tests.lifecycle.stored import brief, stored
from tests.support import rows

LIMITS = {
    "LOST_AFTER": LOST_AFTER,
    "MAX_QUEUE_SECONDS": 100.0,
    "MAX_INPUT_SECONDS": 200.0,
    "ABANDONED_AFTER": ABANDONED_AFTER,
    "TASK_TTL": 300.0,
    "SESSION_IDLE_SECONDS": 1e7,
    "MAX_OPEN_REQUESTS_PER_PRINCIPAL": 3,
    "MAX_OPEN_TASKS_PER_PRINCIPAL": 2,
    "REQUEST_RETENTION_DAYS": 1,
}
DAY = 86_400.0
MAY_MOVE_AFTER_THE_END = {"delivered_at", "tallied_at", "server", "follower", "left_at", *REQUEST_TIMES}
QUESTIONS = {key: {"method": "elicitation/create", "params": {"message": f"Your {key}?"}} for key in ("age", "name")}
ANSWER = {"action": "accept", "content": {}}


class World(RuleBasedStateMachine):
    """Many requests of two principals, two workers that may take any message, two servers, and all other actors."""

    KNOWN = ("lives", "purged", "ends", "sealed", "heard_at", "session", "passed")
    """What the machine must remember about the world besides its identities."""

    def __init__(self, room=None):
        super().__init__()
        self.room_for_tasks = room or LIMITS["MAX_OPEN_TASKS_PER_PRINCIPAL"]
        self.room = room or LIMITS["MAX_OPEN_REQUESTS_PER_PRINCIPAL"]

    @initialize()
    def begin(self):
        """Create requests in every open status, one of them with a cancellation requested."""
        _empty()
        self.began_at, self.passed = time.monotonic(), 0.0
        self.lives, self.purged, self.ends, self.sealed = [], [], {}, {}
        self.workers = [Identity(ProcessRole.WORKER) for _ in range(2)]
        self.servers = [Identity(ProcessRole.SERVER) for _ in range(2)]
        self.heard_at = {}
        for identity in (*self.workers, *self.servers):
            self.hear(identity)
        self.session = self.begin_session()
        for status in (*OPEN, *OPEN, "stopping", "stopping"):
            self._begin_at(status)

    @property
    def now(self):
        return time.monotonic() - self.began_at + self.passed

    def at(self, *statuses):
        """Return the requests in these statuses. If there are none, return all requests, including purged ones."""
        return [life for life in self.lives if life.status in statuses] or [*self.lives, *self.purged]

    @invariant()
    def all_is_as_the_model_has_it(self):
        found = stored()
        assert found.rows.keys() == {life.pk for life in self.lives}
        for life in self.lives:
            row = found.rows[life.pk]
            assert (row["status"], row["worker"], row["stage"]) == (life.status, life.worker, life.stage)
            assert (row["killing"], row["input_round"], row["server"]) == (life.fenced, life.round, life.server)
            assert (row["finished_at"] is not None, row["result"] is not None) == (not life.open, life.result)
            assert (row["deadline_at"] is not None) == life.open
            assert (row["task_handle"] is not None) == life.is_task
            asked = life.cancelled_by
            told = (asked.cause, asked.actor, asked.reason) if asked else ("", "", "")
            assert (row["cancel_cause"], row["cancel_actor"], brief(row["cancel_reason"])) == told
            assert (row["cancel_requested_at"] is not None) == (asked is not None)
            assert found.numbers[life.pk] == list(range(1, row["event_seq"] + 1))
            assert found.stories[life.pk] == life.story
            self._has_ended_once(life, row)
        for life in (*self.lives, *self.purged):
            assert found.attempts.get(life.pk, []) == life.attempts
        self._seals_stay(found.seals)

    def teardown(self):
        sealing.seal_final_attempts()
        self.verify()

    def end_session(self):
        if self.session is None:
            return
        of_session = [life for life in self.lives if life.session == self.session and life.open]
        calls = [life for life in of_session if life.cancelled_by is None]
        sessions.end(self.session, actor=rows.ADA)
        for life in calls:
            life.cancel("client", "Ada", "session", None, self.now)
        self.session = None

    def supervise(self):
        rounds.supervise()
        for _, find in SUPERVISED.values():
            find(self)

    def purge(self):
        now = self.now
        gone = [
            life
            for life in self.lives
            if older(life.finished_at, now, DAY)
            and older(life.submitted_at, now, DAY)
            and (life.expires_at is None or older(life.expires_at, now, 0))
        ]
        assert purging.purge_requests() == len(gone)
        self.lives = [life for life in self.lives if life not in gone]
        self.purged += gone

    def verify(self):
        assert list(verification.verify()) == []

    def _has_ended_once(self, life, row):
        if not life.open:
            end = {name: value for name, value in row.items() if name not in MAY_MOVE_AFTER_THE_END}
            assert self.ends.setdefault(life.pk, end) == end

    def _seals_stay(self, seals):
        before = {pk: seal for pk, seal in self.sealed.items() if seal}
        assert {pk: seals[pk] for pk in before} == before
        self.sealed = seals

    def born(self, row, owner):
        now = self.now
        life = Life(row.pk, owner, row.time_limit, row.server, row.session, now, queued_at=now)
        life.deadline_at = now + LIMITS["MAX_QUEUE_SECONDS"]
        self.lives.append(life)
        return life

    def is_kept(self, life):
        return life in self.lives

    def _begin_at(self, status):
        server, worker = self.servers[0].boot_id, self.workers[0].boot_id
        life = self.born(transitions.submit(rows.submission(server=server)), rows.OWNER)
        if status != "queued":
            assert transitions.claim(life.pk, worker=worker, pid=1)
            life.claim(worker, self.now)
        if status == "input_required":
            assert input_rounds.ask(life.pk, QUESTIONS, worker=worker)
            life.ask(list(QUESTIONS), worker, self.now, LIMITS["MAX_INPUT_SECONDS"], room=True)
        if status == "stopping":
            self.cancel_all([life], Cause.CLIENT, rows.ADA, rows.OWNER)
        return life

    def worker_of(self, life, its):
        """Return the worker that has or had the request, or any other."""
        first, second = (worker.boot_id for worker in self.workers)
        return first if its == (life.worker in (first, None)) else second

    def begin_session(self):
        about = {"protocol_version": "2025-11-25", "client_info": {}, "client_capabilities": {}, "subjects": []}
        return sessions.begin(rows.OWNER, **about).pk

    def finish_as(self, life, status, worker, *, fenced, stage):
        written = transitions.finish(
            life.pk, status, worker=worker, fenced=fenced, stage=stage, result=rows.RESULT if worker else None
        )
        assert written == life.finish(status.value, worker, fenced, stage, self.now)
        if written == "failed":
            life.result = worker is not None

    def cancel_all(self, crowd, cause, actor, asker):
        told = cancellation.cancel_all([CancellationRequest(life.pk, cause, actor, "enough", asker) for life in crowd])
        for life, outcome in zip(crowd, told, strict=True):
            if self.is_kept(life):
                assert outcome == life.cancel(cause.value, actor.name, "enough", asker, self.now)
            else:
                assert outcome == "unknown"

    def hear(self, identity):
        processes.beat(identity)
        self.heard_at[identity.boot_id] = self.now

    def is_silent(self, boot_id):
        heard_at = self.heard_at[boot_id]
        return heard_at is None or older(heard_at, self.now, LIMITS["LOST_AFTER"])

    def has_room_for_task(self, owner):
        tasks = [life for life in self.lives if life.owner == owner and life.is_task and life.open]
        return len(tasks) < self.room_for_tasks


def _empty():
    with databases.atomic():
        AuditDay.objects.update(purged_at="2026-01-01T00:00:00Z")
        Cancellation.objects.all().purge()
        for model in (AuditDay, Request, Session, Process):
            model.objects.all().delete()
