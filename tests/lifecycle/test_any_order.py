"""Whatever happens to a request, in any order: one end, a stage that grows, numbered events, every attempt audited."""

from uuid import uuid4

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from mcp_app.lifecycle import input_rounds, supervision, transitions
from mcp_app.lifecycle.endings import final_result
from mcp_app.lifecycle.events import Event
from mcp_app.states import TERMINAL, TRANSITIONS, Cause, EventKind, Outcome, Stage, Status
from tests.lifecycle import rows

WORKERS = [uuid4(), uuid4()]
workers = st.sampled_from(WORKERS)
stages = st.sampled_from(Stage)


class Life(RuleBasedStateMachine):
    """One request, two workers that may both hold its message, and everybody who may cancel it."""

    @initialize()
    def submit(self):
        self.row = rows.queued()
        self.told = []
        self.owner = None
        self.end = None
        self.killer = False
        self.stage = Stage.NONE
        self.statuses = [Status.QUEUED]

    @rule(worker=workers)
    def claim(self, worker):
        claimed = transitions.claim(self.row.pk, worker=worker, pid=1)
        assert (claimed is not None) == (self.statuses[-1] == Status.QUEUED)
        if claimed is not None:
            self.owner = worker

    @rule(count=st.integers(0, 3))
    def record(self, count):
        taken = transitions.record(self.row.pk, [Event(EventKind.PROGRESS, {"progress": 1})] * count)
        assert taken == (self.statuses[-1] == Status.RUNNING)

    @rule(cause=st.sampled_from(Cause), stranger=st.booleans())
    def cancel(self, cause, stranger):
        outcome = rows.cancel(self.row, cause, principal=rows.STRANGER if stranger else rows.OWNER)
        assert (outcome == Outcome.DENIED) == stranger
        if self.end:
            assert outcome in (Outcome.DENIED, Outcome.TOO_LATE)
        assert (outcome == Outcome.ACCEPTED) <= (Outcome.ACCEPTED not in self.told)
        self.told.append(outcome)

    @rule(stage=stages)
    def reach_stage(self, stage):
        transitions.reach_stage(self.row.pk, stage)

    @rule(worker=workers)
    def begin_kill(self, worker):
        if transitions.begin_kill(self.row.pk, worker=worker):
            assert worker == self.owner
            assert Outcome.ACCEPTED in self.told
            assert not self.killer
            self.killer = True

    @rule(worker=st.sampled_from([*WORKERS, None]), status=st.sampled_from(sorted(TERMINAL)), fenced=st.booleans())
    def finish(self, worker, status, fenced):
        written = transitions.finish(self.row.pk, status, worker=worker, fenced=fenced, result=rows.RESULT)
        if written is not None:
            assert self.end is None
            assert worker in (self.owner, None)
            assert fenced == self.killer
            assert (written == Status.CANCELLED) <= (Outcome.ACCEPTED in self.told)

    @rule(worker=workers)
    def ask(self, worker):
        written = input_rounds.ask(self.row.pk, rows.QUESTIONS, worker=worker)
        if written is not None:
            assert self.statuses[-1] == Status.RUNNING
            assert worker == self.owner
            assert not self.killer
            assert written == (Status.CANCELLED if Outcome.ACCEPTED in self.told else Status.INPUT_REQUIRED)

    @rule(number=st.integers(0, 2), again=st.booleans())
    def answer(self, number, again):
        before = rows.fresh(self.row)
        taken = rows.answer(self.row, number, again=rows.QUESTIONS if again else None)
        asked = before.status == Status.INPUT_REQUIRED and before.input_round == number
        assert (taken is not None) == asked

    @rule()
    def lose(self):
        lost = supervision.lose(self.row.pk, "gone")
        assert lost == (self.statuses[-1] == Status.RUNNING)

    @invariant()
    def one_life(self):
        row = rows.fresh(self.row)
        self._statuses_follow_the_table(row)
        self._the_stage_only_grows(row)
        self._events_are_numbered_and_tell_the_statuses(row)
        self._attempts_are_audited_and_completed_by_the_end()

    def _statuses_follow_the_table(self, row):
        before, now = self.statuses[-1], Status(row.status)
        if now != before:
            assert now in TRANSITIONS[before]
            self.statuses.append(now)
        self.end = now if now in TERMINAL else None
        assert (row.finished_at is not None) == (self.end is not None)
        assert (row.result is not None) == (now in (Status.COMPLETED, Status.FAILED))
        if self.end:
            assert final_result(row)["content"]

    def _the_stage_only_grows(self, row):
        stage = Stage(row.stage)
        assert stage >= self.stage
        self.stage = stage

    def _events_are_numbered_and_tell_the_statuses(self, row):
        assert rows.numbers(row) == list(range(1, row.event_seq + 1))
        assert [data["status"] for _, data in rows.story(row, EventKind.TRANSITION)] == self.statuses

    def _attempts_are_audited_and_completed_by_the_end(self):
        attempts = rows.audited(self.row)
        accepted = [n for n, told in enumerate(self.told) if told == Outcome.ACCEPTED]
        assert len(attempts) == len(self.told)
        for number, attempt in enumerate(attempts):
            if number in accepted and self.end:
                too_late = self.end == Status.COMPLETED
                assert attempt.outcome == (Outcome.TOO_LATE if too_late else Outcome.ACCEPTED)
                assert attempt.status_after == self.end
            else:
                assert attempt.outcome == self.told[number]
            assert (attempt.settled_at is None) == (number in accepted and not self.end)


def test_any_order_of_steps_is_one_life():
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=40,
            stateful_step_count=20,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
