"""Keeps the prose readable: the marks that `tests.english` counts may only become fewer."""

import pytest

from tests.docs.pages import pages, path_of
from tests.english import MARKS, ROOT, long_sentences, marks_per_1000_words

LONGEST = 35
"""Words of a sentence."""
PLAIN = 3.0
"""Marks per 1,000 words that plain technical English may have."""
CEILINGS = {
    **{f"mcp_app/{folder.name}": PLAIN for folder in sorted((ROOT / "mcp_app").iterdir()) if any(folder.glob("*.py"))},
    "mcpsite": PLAIN,
    "bench": PLAIN,
    "tests": PLAIN,
    "CHANGELOG.md": PLAIN,
    "CONTRIBUTING.md": PLAIN,
    "SECURITY.md": PLAIN,
    "docs": 2.0,
    "README.md": 1.0,
}
"""Marks per 1,000 words. Lower a number when you improve a page, and never raise one."""


@pytest.mark.parametrize("path", CEILINGS)
def test_the_prose_does_not_become_harder_to_read(path):
    marks = marks_per_1000_words(ROOT / path)
    assert marks <= CEILINGS[path], f"`python -m tests.english {path} --show 10` prints the sentences to rewrite"


@pytest.mark.parametrize("page", pages())
def test_no_sentence_of_a_page_is_long(page):
    assert not list(long_sentences(path_of(page), LONGEST))


@pytest.mark.parametrize("sentence", ["It tells who waits.", "What was opened is stored.", "Refuses to know a job."])
def test_a_sentence_in_the_old_dialect_has_marks(sentence):
    assert MARKS.search(sentence)


@pytest.mark.parametrize("sentence", ["Return the row, or `None` if it was purged.", "Publish several requests."])
def test_a_plain_sentence_has_none(sentence):
    assert not MARKS.search(sentence)
