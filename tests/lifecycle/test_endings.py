"""The sentences with which a client learns how its request ended."""

import pytest

from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.observation import final_result
from mcp_app.states import Cause, Status
from tests.support import rows


def words(row):
    [block] = final_result(rows.fresh(row))["content"]
    return block["text"]


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_words_for_whoever_asks(cause):
    row = rows.queued()
    rows.cancel(row, cause, "enough")
    result = final_result(rows.fresh(row))
    assert result["isError"] is True
    assert words(row).startswith("The call was ")
    assert words(row).endswith("Reason: enough")


def test_words_for_the_causes_differ():
    told = []
    for cause in Cause:
        row = rows.queued()
        rows.cancel(row, cause)
        told.append(words(row))
    assert len(set(told)) == len(Cause)


def test_a_failure_without_a_result_tells_its_client_where_the_details_are(worker):
    failed, unpublished = rows.running(worker), rows.queued()
    transitions.finish(failed.pk, Status.FAILED, worker=worker, error={"cause": "tool", "message": "/etc/secret"})
    transitions.finish(unpublished.pk, Status.FAILED, error={"cause": "broker", "message": "redis://:pw@host"})
    assert "log" in words(failed)
    assert "task queue" in words(unpublished)
    assert not {"secret", "pw@host"} & set(words(failed) + words(unpublished))


def test_a_result_is_told_as_it_is(worker):
    row = rows.running(worker)
    told = {"content": [], "isError": True}
    transitions.finish(row.pk, Status.FAILED, worker=worker, result=told)
    assert final_result(rows.fresh(row)) == told
