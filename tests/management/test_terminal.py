"""Output to a terminal: its lines fit, and it contains no control characters."""

import io
import json
import sys

import pytest

from mcp_app.management import terminal
from mcp_app.management.calling import ending
from mcp_app.management.calling.display import CallProgress, Display
from mcp_app.safe_text import safe_json_text

HOSTILE = "a\x1b[31mb\x9bc\r\nd\u202ee"


def test_a_foreign_text_is_one_inert_line() -> None:
    assert terminal.one_line(HOSTILE) == "a\\u001b[31mb\\u009bc\\u000d d\\u202ee"


def test_json_keeps_what_it_makes_inert() -> None:
    value = {"text": HOSTILE + "\U000e0041", "plain": "ä\t"}
    written = safe_json_text(value)
    assert json.loads(written) == value
    assert not set(written) & set("\x1b\x9b\r\u202e\U000e0041")
    assert "ä" in written


def test_a_table_takes_no_more_than_the_terminal_has() -> None:
    rows = [("1", "x" * 60, "y" * 30), ("22", "字" * 20, "short")]
    wide = terminal.table(("ID", "LONG", "SHORT"), rows, None, (1, 2))
    assert "x" * 60 in wide
    narrow = terminal.table(("ID", "LONG", "SHORT"), rows, 50, (1, 2)).splitlines()
    assert max(map(terminal.width, narrow)) == 50
    assert [line.split()[0] for line in narrow] == ["ID", "1", "22"]


@pytest.mark.parametrize(
    ("progress", "bar", "words"),
    [
        (CallProgress(message="running"), "", "running"),
        (CallProgress(3.0, None, "rows"), "", "3  rows"),
        (CallProgress(5.0, 10.0), f"[{'#' * 10}{'-' * 10}]", "5 of 10"),
        (CallProgress(12.0, 10.0), f"[{'#' * 20}]", "12 of 10"),
        (CallProgress(0.5, 0.0), "", "0.5 of 0"),
    ],
)
def test_progress_is_a_bar_where_its_end_is_known(progress: CallProgress, bar: str, words: str) -> None:
    assert (progress.bar(), progress.words()) == (bar, words)


def test_without_a_terminal_the_newest_progress_is_a_line() -> None:
    display = Display(said := io.StringIO(), "dig")
    display.where("running")
    for done in range(1000):
        display.progress(done, 1000, HOSTILE)
    display.line(HOSTILE)
    display.close()
    lines = said.getvalue().splitlines()
    assert any(line.startswith("999 of 1000  a\\u001b") for line in lines)
    assert lines[-1] == terminal.one_line(HOSTILE)
    assert len(lines) < 10
    assert "\x1b" not in said.getvalue()


def test_a_display_whose_reader_is_gone_holds_up_nobody() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    display = Display(Gone(), "dig")
    display.line("a word")
    with display.held():
        display.line("another")
    display.close()


def test_half_a_character_does_not_keep_a_result_from_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written := io.BytesIO(), "utf-8"))
    result = {"content": [{"type": "text", "text": "a\ud800é"}]}
    for as_json in (False, True):
        ending.show({"result": result}, as_json=as_json)
    text, told = written.getvalue().decode().split("\n", 1)
    assert (text, json.loads(told)) == ("a?é", result)
