"""Audit rows are only ever added."""

import pytest

from mcp_app.models import AppendOnlyError, Cancellation
from mcp_app.states import Outcome
from tests.support import rows


@pytest.fixture
def attempt(worker):
    [attempt] = rows.audited(rows.stopping(worker))
    return attempt


def test_a_stored_attempt_cannot_be_saved_again(attempt):
    attempt.reason = "rewritten"
    with pytest.raises(AppendOnlyError):
        attempt.save()
    assert Cancellation.objects.get().reason == ""


@pytest.mark.fault("G9")
@pytest.mark.parametrize(
    "change",
    [
        lambda attempt: attempt.delete(),
        lambda _: Cancellation.objects.all().delete(),
        lambda _: Cancellation.objects.update(reason="rewritten"),
        lambda _: Cancellation.objects.filter(outcome=Outcome.ACCEPTED).update(outcome=Outcome.DENIED),
        lambda attempt: Cancellation.objects.bulk_update([attempt], ["reason"]),
        lambda attempt: Cancellation.objects.update_or_create(pk=attempt.pk, defaults={"reason": "rewritten"}),
    ],
    ids=["delete", "queryset-delete", "update", "filtered-update", "bulk-update", "update-or-create"],
)
def test_the_orm_cannot_change_or_delete_an_attempt(attempt, change):
    before = Cancellation.objects.values().get()
    with pytest.raises(AppendOnlyError):
        change(attempt)
    assert Cancellation.objects.values().get() == before


def test_a_settled_attempt_is_sealed(attempt):
    settled = Cancellation.objects.filter(pk=attempt.pk)
    assert settled.settle(settled_at=attempt.requested_at, latency_ms=1.0) == 1
    assert settled.settle(settled_at=attempt.requested_at, latency_ms=2.0) == 0
    assert settled.get().latency_ms == 1.0
