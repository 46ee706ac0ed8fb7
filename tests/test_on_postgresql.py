"""What limits calls, and what is made of models, is the same on PostgreSQL: its types and its locks are others."""

import pytest

from tests.on_postgresql import assert_passes

CHOSEN = (
    "tests/lifecycle/test_call_limits.py",
    "tests/transport/test_call_limits.py",
    "tests/transport/test_redaction.py",
    "tests/derived/test_model_lists.py",
    "tests/derived/test_model_relations.py",
    "tests/derived/test_model_tools.py",
    "tests/derived/test_model_writing.py",
    "tests/derived/test_model_resources.py",
)
"""What stores or asks for something in another way there; the whole basic suite would take minutes."""


@pytest.mark.engines
@pytest.mark.timeout(600)
def test_limits_and_derived_tools_are_the_same_on_postgresql() -> None:
    assert_passes(*CHOSEN)
