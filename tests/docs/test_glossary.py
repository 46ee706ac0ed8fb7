"""docs/glossary.md has the words that the admin says, as it says them."""

import re
from typing import Any, Final

import pytest
from django.utils import translation

from mcp_app.states import CancelPolicy, Cause, Outcome, Stage, Status
from tests.docs.pages import DOCS

ENTRY: Final = r"^{word}\n((?:  .*\n)+)"


@pytest.mark.parametrize(
    ("word", "labels"),
    [("status", Status), ("policy", CancelPolicy), ("stage", Stage), ("cause", Cause), ("outcome", Outcome)],
)
def test_an_entry_names_what_there_is_in_the_admins_words(word: str, labels: Any) -> None:
    entry = re.search(ENTRY.format(word=word), (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert entry is not None
    with translation.override("en"):
        assert set(re.findall(r"\*([\w ]+)\*", entry[1])) == {str(each.label) for each in labels}
