"""Keeps the prose readable: the marks that `tests.english` counts may only become fewer."""

import pytest

from tests.english import MARKS, ROOT, marks_per_1000_words

CEILINGS = {
    "mcp_app/admin": 5.5,
    "mcp_app/auth": 3.5,
    "mcp_app/catalogue": 3.0,
    "mcp_app/celery_adapter": 3.0,
    "mcp_app/checks": 3.0,
    "mcp_app/derived": 4.0,
    "mcp_app/diagnosis": 3.0,
    "mcp_app/embedded": 3.0,
    "mcp_app/execution": 3.0,
    "mcp_app/health": 3.0,
    "mcp_app/lifecycle": 3.0,
    "mcp_app/management": 5.0,
    "mcp_app/metrics": 3.0,
    "mcp_app/models": 3.0,
    "mcp_app/presentation": 3.0,
    "mcp_app/protocol": 3.0,
    "mcp_app/templatetags": 3.0,
    "mcp_app/testing": 3.0,
    "mcp_app/transport": 3.0,
    "mcpsite": 7.0,
    "bench": 27.0,
    "tests": 16.5,
    "docs": 18.0,
    "README.md": 22.5,
    "CHANGELOG.md": 3.0,
    "CONTRIBUTING.md": 3.0,
    "SECURITY.md": 7.0,
}
"""Marks per 1,000 words. Lower a number when you improve a package, and never raise one."""


@pytest.mark.parametrize("path", CEILINGS)
def test_the_prose_does_not_become_harder_to_read(path):
    marks = marks_per_1000_words(ROOT / path)
    assert marks <= CEILINGS[path], f"`python -m tests.english {path} --show 10` prints the sentences to rewrite"


@pytest.mark.parametrize("sentence", ["It tells who waits.", "What was opened is stored.", "Refuses to know a job."])
def test_a_sentence_in_the_old_dialect_has_marks(sentence):
    assert MARKS.search(sentence)


@pytest.mark.parametrize("sentence", ["Return the row, or `None` if it was purged.", "Publish several requests."])
def test_a_plain_sentence_has_none(sentence):
    assert not MARKS.search(sentence)
