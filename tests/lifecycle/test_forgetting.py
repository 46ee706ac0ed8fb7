"""Versions that are no longer needed are deleted, and listeners still get exactly the changes."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db.models import F

from mcp_app.catalogue.changes import resource_subject, touch
from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.requests import observation
from mcp_app.lifecycle.sessions import listen_streams, session_streams, sessions
from mcp_app.lifecycle.supervision import change_versions, rounds
from mcp_app.models import ChangeVersion
from mcp_app.models.change_version import FORGOTTEN
from mcp_app.transport.watching.change_table import ChangeListener, ChangeTable
from tests.support import rows
from tests.support.racing import race

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
    """A listener that subscribes now, and the table of changes that it reads."""
    table = ChangeTable()
    listener = ChangeListener(lambda gone: None)
    table.join(listener, [subject], observation.versions([subject]))
    return listener, table


def begin(**changes):
    return sessions.begin(
        rows.OWNER,
        **{"protocol_version": "2025-11-25", "client_info": {}, "client_capabilities": {}, "subjects": []} | changes,
    )


def test_versions_of_unwatched_resources_are_deleted_after_a_day():
    touch(*ALWAYS, NOTES)
    change_versions.forget_old_versions()
    assert subjects() == ALWAYS | {NOTES}
    days_pass()
    rounds.supervise()
    assert subjects() == ALWAYS


def test_a_new_version_is_above_all_deleted_ones():
    for _ in range(7):
        touch(NOTES)
    days_pass()
    change_versions.forget_old_versions()
    assert version(NOTES) is None
    touch(NOTES, resource_subject("file:///new"))
    assert version(NOTES) == version(resource_subject("file:///new")) == 8
    days_pass()
    change_versions.forget_old_versions()
    touch(NOTES)
    assert version(NOTES) == 9


def test_versions_that_a_session_watches_are_kept_until_it_ends():
    session = begin()
    sessions.subscribe(session.pk, URI, NOTES)
    touch(NOTES)
    days_pass()
    change_versions.forget_old_versions()
    assert subjects() == {NOTES, sessions.subject(session.pk)}
    assert dict(session_streams.claim_events(session.pk, session.pk, session.pk, {NOTES: version(NOTES)})) == {NOTES: 1}
    sessions.end(session.pk, actor=SYSTEM)
    days_pass()
    change_versions.forget_old_versions()
    assert subjects() == set()


def test_a_session_that_subscribes_to_a_forgotten_resource_is_notified_of_the_next_change():
    touch(NOTES)
    days_pass()
    change_versions.forget_old_versions()
    session = begin()
    sessions.subscribe(session.pk, URI, NOTES)
    assert session_streams.claim_events(session.pk, session.pk, session.pk, {NOTES: 0}) == []
    touch(NOTES)
    assert dict(session_streams.claim_events(session.pk, session.pk, session.pk, {NOTES: version(NOTES)})) == {NOTES: 1}


def test_a_listener_is_not_notified_of_a_deleted_version_but_of_the_next_change():
    touch(NOTES)
    listener, table = listening(NOTES)
    days_pass()
    change_versions.forget_old_versions()
    table.take(observation.versions([NOTES]))
    assert listener.take() == set()
    touch(NOTES)
    table.take(observation.versions([NOTES]))
    assert listener.take() == {NOTES}


def test_close_requests_of_a_server_are_forgotten_and_later_ones_still_reach_it():
    session_options, others = (listen_streams.subject(uuid4()) for _ in range(2))
    touch(session_options, others)
    listener, table = listening(session_options)
    days_pass()
    rounds.supervise()
    assert subjects() == set()
    touch(session_options)
    table.take(observation.versions([session_options]))
    assert listener.take() == {session_options}


def test_versions_are_forgotten_in_batches_and_then_rarely_searched_for(monkeypatch):
    monkeypatch.setattr(change_versions, "BATCH", 4)
    touch(*(resource_subject(f"file:///{number}") for number in range(10)))
    days_pass()
    left = []
    for _ in range(4):
        change_versions.forget_old_versions()
        left.append(len(subjects()))
    assert left == [6, 2, 0, 0]
    touch(NOTES)
    ChangeVersion.objects.filter(subject=NOTES).update(changed_at=F("changed_at") - timedelta(days=2))
    change_versions.forget_old_versions()
    assert subjects() == {NOTES}
    days_pass()
    change_versions.forget_old_versions()
    assert subjects() == set()


@pytest.mark.parametrize("attempt", range(5))
def test_a_change_that_races_with_its_versions_end_is_not_lost(attempt):
    touch(NOTES)
    before = version(NOTES)
    days_pass()
    race(change_versions.forget_old_versions, lambda: touch(NOTES))
    assert version(NOTES) > before
