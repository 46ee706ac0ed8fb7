"""Request ids are ordered by time, and cannot be guessed."""

import time
from uuid import RFC_4122

import pytest

from mcp_app.models import request_ids


def test_an_id_is_a_uuid_of_version_7_that_begins_with_its_time() -> None:
    before = time.time_ns() // 1_000_000
    made = request_ids.new()
    assert (made.version, made.variant) == (7, RFC_4122)
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000


def test_a_later_id_is_a_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    earlier = [request_ids.new() for _ in range(100)]
    monkeypatch.setattr(time, "time_ns", lambda: now + 1_000_000)
    later = [request_ids.new() for _ in range(100)]
    assert max(earlier) < min(later)
    assert max(map(str, earlier)) < min(map(str, later))


def test_ids_of_one_moment_differ_in_every_bit_that_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    made = [request_ids.new().int for _ in range(200)]
    assert len(set(made)) == len(made)
    ones = zeros = 0
    for each in made:
        ones, zeros = ones | each, zeros | ~each
    assert (ones & zeros).bit_count() == 74
