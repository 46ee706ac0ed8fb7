"""Call limits and tools of models also work on PostgreSQL, which has other types and locks than SQLite."""

import pytest

from tests.on_postgresql import assert_passes

CHOSEN = (
    "tests/lifecycle/test_call_limits.py",
    "tests/transport/test_call_limits.py",
    "tests/transport/test_redaction.py",
    "tests/transport/test_usable_connections.py",
    "tests/derived/test_model_lists.py",
    "tests/derived/test_model_relations.py",
    "tests/derived/test_model_tools.py",
    "tests/derived/test_model_writing.py",
    "tests/derived/test_model_resources.py",
)
"""Tests of code that stores or queries differently on PostgreSQL. The whole basic suite would take minutes."""


@pytest.mark.engines
@pytest.mark.timeout(600)
def test_limits_and_derived_tools_are_the_same_on_postgresql() -> None:
    assert_passes(*CHOSEN)
