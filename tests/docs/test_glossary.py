"""docs/reference/glossary.md has the admin's terms in the admin's spelling."""

import re
from typing import Any, Final

import pytest
from django.utils import translation

from mcp_app.states import CancelPolicy, Cause, Outcome, Stage, Status
from tests.docs.pages import DOCS

EXPORTED: Final = r"^\| `cause` \| (.*) \|$"
ENTRY: Final = r"^{word}\n((?:  .*\n)+)"


@pytest.mark.parametrize(
    ("word", "labels"),
    [("status", Status), ("policy", CancelPolicy), ("stage", Stage), ("cause", Cause), ("outcome", Outcome)],
)
def test_an_entry_names_what_there_is_in_the_admins_words(word: str, labels: Any) -> None:
    entry = re.search(ENTRY.format(word=word), (DOCS / "reference/glossary.md").read_text(), re.MULTILINE)
    assert entry is not None
    with translation.override("en"):
        assert set(re.findall(r"\*([\w ]+)\*", entry[1])) == {str(each.label) for each in labels}


def test_the_table_of_the_audits_export_names_every_cause() -> None:
    row = re.search(EXPORTED, (DOCS / "how-to/audit.md").read_text(), re.MULTILINE)
    assert row is not None
    assert set(re.findall(r"`(\w+)`", row[1])) == set(Cause.values)


def test_the_table_of_who_cancels_names_every_cause() -> None:
    table = (
        (DOCS / "explanation/architecture.md")
        .read_text()
        .partition("## A stop, step by step")[2]
        .partition("What follows")[0]
    )
    with translation.override("en"):
        assert set(re.findall(r"^\| ([\w ]+) \|", table, re.MULTILINE)) - {"cause"} == {
            str(each.label) for each in Cause
        }
