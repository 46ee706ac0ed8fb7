"""Change versions are bumped in the transaction of the change, and not if it is rolled back."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from mcp_app.catalogue import changes
from mcp_app.conf import settings
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.requests import observation
from mcp_app.prompts import notify_prompts_list_changed
from mcp_app.resources import notify_resource_updated, notify_resources_list_changed

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

URI = "notes://today"
ALL = (changes.RESOURCES, changes.PROMPTS, changes.resource_subject(URI))


@pytest.fixture
def wakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[None]]:
    woken: list[None] = []
    monkeypatch.setattr(wakeups, "wake_servers", lambda: woken.append(None))
    return woken


def change(using: str) -> None:
    notify_resources_list_changed(using=using)
    notify_prompts_list_changed(using=using)
    notify_resource_updated(URI, using=using)


def versions() -> list[int]:
    found = observation.versions(ALL)
    return [found.get(subject, 0) for subject in ALL]


@pytest.fixture(params=["the rows' database", "another database"])
def using(request: pytest.FixtureRequest) -> str:
    """Returns the database of the change, which is the rows' database or another one."""
    return settings.DATABASE if request.param == "the rows' database" else "default"


def test_a_committed_change_is_told(using: str, wakes: list[None]) -> None:
    with transaction.atomic(using=using):
        change(using)
        assert wakes == []
    assert versions() == [1, 1, 1]
    assert len(wakes) == 3


def test_a_change_without_a_transaction_is_told_at_once(using: str, wakes: list[None]) -> None:
    change(using)
    assert versions() == [1, 1, 1]
    assert len(wakes) == 3


def test_a_change_that_is_rolled_back_is_told_to_nobody(using: str, wakes: list[None]) -> None:
    with transaction.atomic(using=using):
        change(using)
        transaction.set_rollback(True, using=using)
    assert (versions(), wakes) == ([0, 0, 0], [])


def test_the_change_and_its_version_are_committed_together(wakes: list[None]) -> None:
    with transaction.atomic(using=settings.DATABASE):
        change(settings.DATABASE)
        assert versions() == [1, 1, 1]


def test_many_resources_are_told_of_with_one_wake_up(wakes: list[None]) -> None:
    uris = [f"notes://{number}" for number in range(5)]
    notify_resource_updated(*uris, URI, URI)
    assert set(observation.versions(map(changes.resource_subject, [*uris, URI])).values()) == {1}
    assert len(wakes) == 1


def test_a_uri_of_any_length_has_a_subject() -> None:
    notify_resource_updated("x://" + "a" * 2_000, using=settings.DATABASE)
    assert len(changes.resource_subject("x://" + "a" * 2_000)) < 100
    assert changes.resource_subject("x://a") != changes.resource_subject("x://A")


@pytest.mark.parametrize("uri", ["", "today", "notes://a b", 7])
def test_what_is_no_uri_cannot_be_updated(uri: Any) -> None:
    with pytest.raises(ValueError, match=f"{uri!r} .*URI"):
        notify_resource_updated(uri)


def test_more_subjects_than_one_query_takes_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    change(settings.DATABASE)
    monkeypatch.setattr(observation, "MAX_SUBJECTS", 2)
    assert observation.versions(ALL) == dict.fromkeys(ALL, 1)
