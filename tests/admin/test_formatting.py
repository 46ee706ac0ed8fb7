"""Values as the admin shows them. In texts from outside, characters that hide or reverse text are escaped."""

import pytest

from mcp_app.admin.lists.formatting import progress_bar
from mcp_app.presentation.formatting import Excerpt, duration, excerpt, number
from mcp_app.safe_text import safe_text
from tests.admin import hostile


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "–"), (0.035, "35 ms"), (1.23, "1.2 s"), (125, "2 min 5 s"), (11_520, "3 h 12 min")],
)
def test_a_duration_is_shown_in_fitting_units(seconds, expected):
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(3.0, "3"), (0.25, "0.25"), (1e300, "1e+300"), (2.0**40, "1099511627776")]
)
def test_a_number_has_no_needless_digits(value, expected):
    assert number(value) == expected


@pytest.mark.parametrize(
    ("done", "total", "expected"),
    [(None, 4.0, "–"), (3.0, None, "3"), (3.0, 0.0, "3")],
)
def test_progress_without_both_numbers_has_no_bar(done, total, expected):
    assert progress_bar(done, total) == expected


@pytest.mark.parametrize(("done", "shown"), [(1.0, "1.0"), (9.0, "4.0"), (-1.0, "0.0")])
def test_a_bar_never_passes_its_ends(done, shown):
    assert f'<progress max="4.0" value="{shown}">' in progress_bar(done, 4.0)


@pytest.mark.parametrize("sign", [*"\x00\x07\x1b\x85\u061c\u200b\u202e\u2028\u2066\ufeff\ud800", "\U000e0041"])
def test_a_sign_that_hides_or_reverses_is_made_visible(sign):
    assert safe_text(f"a{sign}b") == f"a\\u{ord(sign):04x}b"


def test_lines_and_letters_of_any_language_stay():
    text = "Zeile\n\tשלום 你好 🙂"
    assert safe_text(text) == text


def test_of_a_long_text_the_beginning_is_kept_and_the_rest_counted():
    assert excerpt(hostile.LONG, 3) == Excerpt("xxx", 999_997)
    assert safe_text(hostile.LONG, 3) == "xx…"
