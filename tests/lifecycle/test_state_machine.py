"""Any steps on many requests, in any order: each request ends once, and the audit has every attempt."""

import time
from copy import deepcopy

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.stateful import run_state_machine_as_test

from mcp_app import databases
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.states import TERMINAL, Cause, EventKind, Stage
from tests.lifecycle.findings import SUPERVISED
from tests.lifecycle.machine import HARMLESS, Lives
from tests.lifecycle.model import MARGIN
from tests.lifecycle.world import LIMITS
from tests.support import rows

ASKED = {"age", "name"}
STOP = {"cause": Cause.CLIENT, "actor": rows.ADA, "asker": rows.OWNER}
PLACES = {
    "queued": [],
    "running": [("deliver", {"worker": 0})],
    "asking": ["running", ("ask", {"its": True, "asked": ASKED})],
    "asking again": ["asking", ("answer", {"early": 0, "again": {"name"}, "server": 1})],
    "asking for the rest": ["asking", ("answer_task", {"given": {"age"}})],
    "queued again": ["asking", ("answer", {"early": 0, "again": set(), "server": 1})],
    "running again, elsewhere": ["queued again", ("deliver", {"worker": 1})],
    "stopping": ["running", ("cancel", STOP)],
    "stopping again": [
        "running again, elsewhere",
        ("cancel", {"cause": Cause.ADMIN, "actor": rows.ADA, "asker": None}),
    ],
    "interrupted": ["stopping", ("reach_stage", {"stage": Stage.INTERRUPT})],
    "being killed": ["stopping", ("begin_kill", {"its": True})],
    "a task": ["running", ("hand_over", {})],
    "a task that asks": ["asking", ("hand_over", {})],
    "a task that stops": ["a task", ("cancel", STOP)],
    "left": ["running", ("leave", {})],
    "of nobody": ["running", ("let_go", {})],
    "cancelled while queued": [("cancel", {"cause": Cause.DISCONNECT, "actor": rows.ADA, "asker": None})],
    "cancelled while asking": ["asking", ("cancel", {"cause": Cause.SHUTDOWN, "actor": rows.ADA, "asker": None})],
    "failed while queued": [("publish_in_vain", {})],
    **{f"{end} in its run": ["running", ("finish", {"status": end, "stage": Stage.NONE})] for end in TERMINAL},
    **{f"{end} after all": ["stopping", ("finish", {"status": end, "stage": Stage.KILL})] for end in TERMINAL},
}
"""The statuses of a request, and the steps that lead to each."""
STEPS = [
    *[("deliver", {"worker": worker}) for worker in (0, 1)],
    ("publish_in_vain", {}),
    *[("say", {"count": count, "kind": EventKind.PROGRESS}) for count in (0, 2)],
    *[("reach_stage", {"stage": stage}) for stage in Stage],
    *[("begin_kill", {"its": its}) for its in (True, False)],
    *[("finish", {"status": end, "stage": Stage.INTERRUPT}) for end in sorted(TERMINAL)],
    *[
        ("finish_as_somebody_else", {"status": end, "its": its, "knows": knows})
        for end in sorted(TERMINAL)
        for its in (True, False, None)
        for knows in (True, False)
    ],
    *[
        ("cancel", {"cause": cause, "actor": Actor("root"), "asker": asker})
        for cause, asker in ((Cause.ADMIN, None), (Cause.CLIENT, rows.OWNER), (Cause.CLIENT, rows.STRANGER))
    ],
    ("cancel_without_the_right", {"cause": Cause.ADMIN, "actor": Actor("Eve")}),
    *[("ask", {"its": its, "asked": ASKED}) for its in (True, False)],
    *[("answer", {"early": early, "again": again, "server": 1}) for early in (-1, 0, 1) for again in (set(), {"age"})],
    *[("answer_task", {"given": given}) for given in ({"age"}, ASKED)],
    *[("answer_as_older_clients_do", {"again": again, "late": late}) for again in (0, 1) for late in (0, 1)],
    *[(name, {}) for name in ("hand_over", "let_go", "leave")],
    *[("forge_the_audit", {"deletes": deletes}) for deletes in (True, False)],
    *[("now_and_then", {"what": what}) for what in ("supervise", "purge", "verify", "deliver", *HARMLESS)],
]
SILENCES = [
    [("stop", {"worker": 0, "server": 0, "which": True})],
    [("stop", {"worker": 0, "server": 0, "which": False}), ("wait", {"seconds": 11.7, "heard": True})],
    *[[("wait", {"seconds": seconds, "heard": heard})] for seconds in (45.9, 131.1, 351.3) for heard in (True, False)],
]


@pytest.fixture
def machine(configure):
    configure(**LIMITS | {"MAX_OPEN_TASKS_PER_PRINCIPAL": 100, "MAX_OPEN_REQUESTS_PER_PRINCIPAL": 100})
    machine = Lives(room=100)
    machine.begin()
    for place in PLACES:
        machine.submit(owner=rows.OWNER, server=0)
        bring(machine, machine.lives[-1], place)
    machine.all_is_as_the_model_has_it()
    return machine


def bring(machine, life, place):
    for step in PLACES[place]:
        if isinstance(step, str):
            bring(machine, life, step)
        else:
            take(machine, life, step)


def take(machine, life, step):
    name, how = step
    getattr(machine, name)(life=life, **how)


def in_a_copy_of_the_world(machine, steps):
    """Run a step, compare, and roll it back. Try again a moment later if a time was too close to a limit."""
    for identity in (*machine.workers, *machine.servers):
        machine.hear(identity)  # independent of the time that the test has taken so far
    known = deepcopy({name: value for name, value in vars(machine).items() if name in Lives.KNOWN})
    try:
        with databases.atomic():
            steps()
            machine.all_is_as_the_model_has_it()
            transaction.set_rollback(True, using=databases.connection().alias)
    except UnsatisfiedAssumption:
        vars(machine).update(known)
        time.sleep(2 * MARGIN)
        in_a_copy_of_the_world(machine, steps)
    else:
        vars(machine).update(known)


@pytest.mark.timeout(600)
@pytest.mark.fault("B1", "B2", "B3", "B4", "B12", "C10", "C14", "D5")
def test_every_step_at_every_place_does_what_it_is_to_do_or_nothing(machine):
    for step in STEPS:
        in_a_copy_of_the_world(machine, lambda step=step: [take(machine, life, step) for life in list(machine.lives)])


@pytest.mark.timeout(600)
@pytest.mark.fault("C2", "C12", "C14")
def test_every_look_of_supervision_at_every_place_finds_what_is_lost_once(machine):
    def look(silence, order):
        for name, how in silence:
            getattr(machine, name)(**how)
        machine.supervise_in_any_order([*order, *order])

    for silence in SILENCES:
        for order in (list(SUPERVISED), list(reversed(SUPERVISED))):
            in_a_copy_of_the_world(machine, lambda silence=silence, order=order: look(silence, order))


def live(**changes):
    """Run the machine without shrinking, which would take minutes. The steps are printed as they ran."""
    common = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
    run_state_machine_as_test(Lives, settings=settings(**common | changes, phases=[Phase.generate]))


@pytest.mark.timeout(600)
@pytest.mark.fault("B1", "B2", "B3", "B4", "B12", "C10", "C14", "D5")
def test_any_order_of_steps_gives_every_request_one_life(configure):
    configure(**LIMITS)
    live(max_examples=12, stateful_step_count=30, derandomize=True)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.fault("B1", "B2", "B3", "B4", "B12", "C10", "C14", "D5")
def test_very_many_orders_of_very_many_steps(configure):
    configure(**LIMITS)
    # One test for each. The choices of a machine depend on the time. If lives begin alike, Hypothesis takes that
    # for an error. The first of two is the simplest. Each statement costs more on PostgreSQL.
    for _ in range(400 if databases.connection().vendor == "sqlite" else 100):
        live(max_examples=2, stateful_step_count=80, print_blob=True)
