"""Versions of what is watched no more are forgotten, and no listener misses a change or hears of none for it."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db.models import F

from mcp_app.catalogue.changes import resource_subject, touch
from mcp_app.lifecycle import forgetting, listen_streams, observation, session_streams, sessions, supervision
from mcp_app.lifecycle.audit import SYSTEM
from mcp_app.models import ChangeVersion
from mcp_app.models.change_version import FORGOTTEN
from mcp_app.transport.subjects import Listener, Subjects
from tests.lifecycle import rows
from tests.lifecycle.racing import race

ALWAYS = {"tools", "resources", "prompts"}
URI = "file:///notes"
NOTES = resource_subject(URI)


def days_pass(days=2):
    ChangeVersion.objects.update(changed_at=F("changed_at") - timedelta(days=days))


def subjects():
    return set(ChangeVersion.objects.exclude(subject=FORGOTTEN).values_list("subject", flat=True))


def version(subject):
    return observation.versions([subject]).get(subject)


def listening(subject):
    """Somebody who listens from now on, and the table that they are told out of."""
    table = Subjects()
    listener = Listener(lambda gone: None)
    table.join(listener, [subject], observation.versions([subject]))
    return listener, table


def begin(**changes):
    return sessions.begin(
        rows.OWNER,
        **{"protocol_version": "2025-11-25", "client_info": {}, "client_capabilities": {}, "subjects": []} | changes,
    )


def test_what_was_notified_and_is_not_watched_is_forgotten_after_a_day():
    touch(*ALWAYS, NOTES)
    forgetting.forget_old_versions()
    assert subjects() == ALWAYS | {NOTES}
    days_pass()
    supervision.supervise()
    assert subjects() == ALWAYS


def test_a_version_that_comes_back_is_above_what_it_and_any_other_was():
    for _ in range(7):
        touch(NOTES)
    days_pass()
    forgetting.forget_old_versions()
    assert version(NOTES) is None
    touch(NOTES, resource_subject("file:///new"))
    assert version(NOTES) == version(resource_subject("file:///new")) == 8
    days_pass()
    forgetting.forget_old_versions()
    touch(NOTES)
    assert version(NOTES) == 9


def test_what_a_session_watches_is_kept_until_the_session_has_ended():
    session = begin()
    sessions.subscribe(session.pk, URI, NOTES)
    touch(NOTES)
    days_pass()
    forgetting.forget_old_versions()
    assert subjects() == {NOTES, sessions.subject(session.pk)}
    assert dict(session_streams.tell(session.pk, session.pk, session.pk, {NOTES: version(NOTES)})) == {NOTES: 1}
    sessions.end(session.pk, actor=SYSTEM)
    days_pass()
    forgetting.forget_old_versions()
    assert subjects() == set()


def test_a_session_that_subscribes_to_what_was_forgotten_is_told_of_the_next_change():
    touch(NOTES)
    days_pass()
    forgetting.forget_old_versions()
    session = begin()
    sessions.subscribe(session.pk, URI, NOTES)
    assert session_streams.tell(session.pk, session.pk, session.pk, {NOTES: 0}) == []
    touch(NOTES)
    assert dict(session_streams.tell(session.pk, session.pk, session.pk, {NOTES: version(NOTES)})) == {NOTES: 1}


def test_a_listener_hears_of_no_change_when_a_version_is_forgotten_and_of_the_next_one():
    touch(NOTES)
    listener, table = listening(NOTES)
    days_pass()
    forgetting.forget_old_versions()
    table.take(observation.versions([NOTES]))
    assert listener.take() == set()
    touch(NOTES)
    table.take(observation.versions([NOTES]))
    assert listener.take() == {NOTES}


def test_wishes_to_close_streams_of_a_server_are_forgotten_and_a_later_one_is_heard_by_it():
    wishes, others = (listen_streams.subject(uuid4()) for _ in range(2))
    touch(wishes, others)
    listener, table = listening(wishes)
    days_pass()
    supervision.supervise()
    assert subjects() == set()
    touch(wishes)
    table.take(observation.versions([wishes]))
    assert listener.take() == {wishes}


def test_they_are_forgotten_in_batches_and_then_looked_for_seldom(monkeypatch):
    monkeypatch.setattr(forgetting, "BATCH", 4)
    touch(*(resource_subject(f"file:///{number}") for number in range(10)))
    days_pass()
    left = []
    for _ in range(4):
        forgetting.forget_old_versions()
        left.append(len(subjects()))
    assert left == [6, 2, 0, 0]
    touch(NOTES)
    ChangeVersion.objects.filter(subject=NOTES).update(changed_at=F("changed_at") - timedelta(days=2))
    forgetting.forget_old_versions()
    assert subjects() == {NOTES}
    days_pass()
    forgetting.forget_old_versions()
    assert subjects() == set()


@pytest.mark.parametrize("attempt", range(5))
def test_a_change_that_races_with_its_versions_end_is_not_lost(attempt):
    touch(NOTES)
    before = version(NOTES)
    days_pass()
    race(forgetting.forget_old_versions, lambda: touch(NOTES))
    assert version(NOTES) > before
