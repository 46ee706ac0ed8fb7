"""The steps that can change requests, as rules of a state machine.

`model` computes the effect of a step independently. After every step the test compares the result, the rows, their
numbered events and the audit.
"""

import pytest
from django.db import DatabaseError
from hypothesis import strategies as st
from hypothesis.stateful import (
    rule,
)

from mcp_app import databases
from mcp_app.lifecycle import task_handles
from mcp_app.lifecycle.audit import sealing
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.input import input_rounds, read_questions, session_inputs, task_inputs
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.sessions import call_connections, session_streams, sessions
from mcp_app.lifecycle.supervision import change_versions, purging, rounds
from mcp_app.models import AppendOnlyError, Cancellation, Request
from mcp_app.states import TERMINAL, Cause, EventKind, Stage, Status
from tests.lifecycle.ageing import pass_time
from tests.lifecycle.findings import SUPERVISED
from tests.lifecycle.model import OPEN
from tests.lifecycle.world import ANSWER, DAY, LIMITS, QUESTIONS, World
from tests.support import rows

of_the_machine = st.runner()
lives = of_the_machine.flatmap(lambda machine: st.sampled_from([*machine.lives, *machine.purged]))
open_ones = of_the_machine.flatmap(lambda machine: st.sampled_from(machine.at(*OPEN)))
running_ones = of_the_machine.flatmap(lambda machine: st.sampled_from(machine.at("running")))
asking_ones = of_the_machine.flatmap(lambda machine: st.sampled_from(machine.at("input_required")))
workers = st.integers(0, 1)
servers = st.integers(0, 1)
stages = st.sampled_from(Stage)
ends = st.sampled_from(sorted(TERMINAL))
mostly = st.sampled_from([True, True, True, False])
supervised = st.sampled_from(list(SUPERVISED))
causes = st.sampled_from(Cause)
actors = st.sampled_from([Actor("Ada", "192.0.2.7"), Actor("root", "192.0.2.1"), Actor("system")])
keys = st.sets(st.sampled_from(sorted(QUESTIONS)), min_size=1)
JUMPS = [4.3, 11.7, 45.9, 131.1, 351.3, DAY + 3_007]
HARMLESS = {
    step.__name__: step
    for step in (
        rounds.republish_unclaimed_requests,
        session_streams.release_those_of_silent_servers,
        read_questions.forget_orphans,
        sessions.expire,
        rounds.forget_old_processes,
        change_versions.forget_old_versions,
        sealing.seal_final_attempts,
        purging.purge_audit,
    )
}
"""Steps that must change no request, and only the seals of the audit."""


class Lives(World):
    """The rules of the state machine."""

    @rule(owner=st.sampled_from([rows.OWNER, rows.STRANGER]), server=st.none() | servers)
    def submit(self, owner, server):
        server = None if server is None else self.servers[server].boot_id
        row = transitions.submit(rows.submission(principal=owner, server=server))
        self.born(row, owner)

    @rule(server=servers)
    def submit_as_task(self, server):
        submission = rows.submission(server=self.servers[server].boot_id)
        room, row = self.has_room_for_task(rows.OWNER), task_handles.submit(submission)
        assert (row is not None) == room
        if row is not None:
            life = self.born(row, rows.OWNER)
            life.is_task, life.expires_at = True, self.now + LIMITS["TASK_TTL"]

    @rule(server=servers)
    def submit_in_session(self, server):
        self.session = self.session or self.begin_session()
        calls = [life for life in self.lives if life.session == self.session and life.open]
        submission = rows.submission(
            jsonrpc_id=f"call {len(self.lives)}.{len(self.purged)}",
            protocol_version="2025-11-25",
            session=self.session,
            server=self.servers[server].boot_id,
        )
        try:
            row = sessions.submit(submission)
        except sessions.TooManyCallsError:
            assert len(calls) >= self.room
            return
        assert len(calls) < self.room
        self.born(row, rows.OWNER)

    @rule(life=lives)
    def publish_in_vain(self, life):
        self.finish_as(life, Status.FAILED, None, fenced=False, stage=Stage.NONE)

    @rule(life=open_ones, worker=workers)
    def deliver(self, life, worker):
        """Deliver results, including results that were delivered before."""
        worker = self.workers[worker].boot_id
        claimed = transitions.claim(life.pk, worker=worker, pid=1)
        assert (claimed is not None) == (life.claim(worker, self.now) if self.is_kept(life) else False)

    @rule(life=running_ones | lives, count=st.integers(0, 3), kind=st.sampled_from([EventKind.PROGRESS, EventKind.LOG]))
    def say(self, life, count, kind):
        told = [Event(kind, {"progress" if kind == EventKind.PROGRESS else "data": n}) for n in range(count)]
        taken = transitions.record(life.pk, told)
        assert taken == life.say(*[(kind.value, n) for n in range(count)])

    @rule(life=running_ones | lives, stage=stages)
    def reach_stage(self, life, stage):
        assert transitions.reach_stage(life.pk, stage) == life.reach(stage)

    @rule(life=running_ones | lives, its=mostly)
    def begin_kill(self, life, its):
        worker = self.worker_of(life, its)
        assert transitions.begin_kill(life.pk, worker=worker) == life.begin_kill(worker)

    @rule(life=running_ones | lives, status=ends, stage=stages)
    def finish(self, life, status, stage):
        self.finish_as(life, status, life.worker, fenced=life.fenced, stage=stage)

    @rule(life=lives, status=ends, its=mostly | st.none(), knows=mostly)
    def finish_as_somebody_else(self, life, status, its, knows):
        """Finish as another worker or as none, which does not know that the process is being killed."""
        worker = None if its is None else self.worker_of(life, its)
        self.finish_as(life, status, worker, fenced=life.fenced == knows, stage=Stage.NONE)

    @rule(life=lives, cause=causes, actor=actors, asker=st.sampled_from([None, rows.OWNER, rows.STRANGER]))
    def cancel(self, life, cause, actor, asker):
        self.cancel_all([life], cause, actor, asker)

    @rule(crowd=st.lists(lives, min_size=2, max_size=4), cause=causes, actor=actors)
    def cancel_a_crowd(self, crowd, cause, actor):
        self.cancel_all(crowd, cause, actor, None)

    @rule(life=lives, cause=causes, actor=actors)
    def cancel_without_the_right(self, life, cause, actor):
        cancellation.deny([CancellationRequest(life.pk, cause, actor, "let me")])
        if self.is_kept(life):
            life.deny(cause, actor.name, "let me")

    @rule(life=running_ones | lives, its=mostly, asked=keys)
    def ask(self, life, its, asked):
        worker, asked = self.worker_of(life, its), sorted(asked)
        waiting = [each for each in self.lives if each.owner == life.owner and each.status == "input_required"]
        room = len(waiting) < self.room
        written = input_rounds.ask(life.pk, {key: QUESTIONS[key] for key in asked}, worker=worker)
        assert written == life.ask(asked, worker, self.now, LIMITS["MAX_INPUT_SECONDS"], room)

    @rule(
        life=lives,
        early=st.sampled_from([0, 0, 0, -1, 1]),
        again=st.sets(st.sampled_from(sorted(QUESTIONS))),
        server=servers,
    )
    def answer(self, life, early, again, server):
        """Retry as a modern client does, for a round that may not be the current one."""
        number, again = life.round + early, sorted(again)
        given, server = dict.fromkeys(life.questions, ANSWER), self.servers[server].boot_id
        asked = life.status == "input_required" and early == 0
        taken = rows.answer(Request(pk=life.pk), number, given, {key: QUESTIONS[key] for key in again}, server=server)
        assert (taken is not None) == asked
        if asked:
            life.answer(set(given), again, self.now, LIMITS["MAX_QUEUE_SECONDS"])
            if not again:
                life.server = server

    @rule(life=asking_ones, given=keys)
    def answer_task(self, life, given):
        """Answer with `tasks/update`, perhaps only in part."""
        taken = task_inputs.answer(life.pk, life.round, dict.fromkeys(sorted(given), ANSWER))
        given = given & set(life.questions) if life.status == "input_required" else set()
        assert (taken is not None) == bool(given)
        if given:
            life.answer(given, [], self.now, LIMITS["MAX_QUEUE_SECONDS"])

    @rule(life=asking_ones, again=st.booleans(), late=st.booleans())
    def answer_as_older_clients_do(self, life, again, late):
        """Answer by the number of the event that asked. `late`: the question was answered or asked again before."""
        asked = session_inputs.open_questions(life.pk, after=0, until=10**6) if life.status == "input_required" else []
        assert {each.key for each in asked} == (set(life.questions) if life.status == "input_required" else set())
        if not asked:
            return
        [one, *_] = asked
        if again:
            session_inputs.ask_again(one, QUESTIONS[one.key])
            life.answer(set(), [one.key], self.now, LIMITS["MAX_QUEUE_SECONDS"])
        if late or not again:
            taken = session_inputs.answer(one, ANSWER)
            assert (taken is not None) == (not again)
            if not again:
                life.answer({one.key}, [], self.now, LIMITS["MAX_QUEUE_SECONDS"])

    @rule(life=open_ones)
    def hand_over(self, life):
        room = self.has_room_for_task(life.owner)
        taken = task_handles.hand_over(life.pk)
        assert (taken is not None) == (self.is_kept(life) and life.hand_over(self.now, LIMITS["TASK_TTL"], room))

    @rule(life=open_ones)
    def let_go(self, life):
        call_connections.detach(life.pk)
        life.let_go()

    @rule(life=open_ones)
    def leave(self, life):
        call_connections.record_disconnect(life.pk, None)
        if life.open and life.left_at is None:
            life.left_at = self.now

    @rule(worker=workers, server=servers, which=st.booleans())
    def beat(self, worker, server, which):
        self.hear(self.workers[worker] if which else self.servers[server])

    @rule(worker=workers, server=servers, which=st.booleans())
    def stop(self, worker, server, which):
        identity = self.workers[worker] if which else self.servers[server]
        processes.stop(identity)
        self.heard_at[identity.boot_id] = None

    @rule(seconds=st.sampled_from(JUMPS), heard=st.booleans())
    def wait(self, seconds, heard):
        """Let time pass, with or without heartbeats."""
        pass_time(seconds)
        self.passed += seconds
        if heard:
            for identity in (*self.workers, *self.servers):
                self.hear(identity)

    @rule(steps=st.lists(supervised, min_size=1, max_size=4))
    def supervise_in_any_order(self, steps):
        """Run the steps that may end a request in any order, also twice."""
        for step in steps:
            act, find = SUPERVISED[step]
            act()
            find(self)

    @rule(life=lives, what=st.sampled_from(["supervise", "purge", "end_session", "verify", "deliver", *HARMLESS]))
    def now_and_then(self, life, what):
        if what == "deliver":
            observation.mark_delivered([life.pk])
        elif what in HARMLESS:
            HARMLESS[what]()
        else:
            getattr(self, what)()

    @rule(life=lives, deletes=st.booleans())
    def forge_the_audit(self, life, deletes):
        """Try to forge the audit. The ORM never allows it, and SQL cannot change sealed rows."""
        forged = Cancellation.objects.filter(request_id=life.pk)
        with pytest.raises(AppendOnlyError):
            forged.delete() if deletes else forged.update(reason="forged")
        if any(self.sealed.get(attempt) for attempt in forged.values_list("pk", flat=True)):
            with pytest.raises(DatabaseError, match="sealed rows"), databases.atomic():
                forged._raw_delete(forged.db) if deletes else forged._settle({"reason": "forged"})
