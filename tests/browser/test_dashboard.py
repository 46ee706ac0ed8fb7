"""The dashboard in a browser: its plots show the stored tallies in the theme's colours, and update by themselves.

This writes its picture: MCP_PICTURES=docs/images python -m pytest -m browser tests/browser/test_dashboard.py
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from mcp_app.lifecycle.statistics import durations
from tests.browser import pages
from tests.browser.callers import start_indexing
from tests.browser.chromium import expect
from tests.browser.hostile import TEXT
from tests.browser.test_hostile import assert_inert
from tests.support.site.stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Browse, Picture

HOURS: Final = 20
"""Fewer hours than the page shows, because the hour may end while the test runs."""
PLOTS: Final = ("calls", "shares", "run", "wait", "causes", "stop")
STAGES: Final = ("none", "cooperative", "interrupt", "kill")
STOPS: Final = (
    ("disconnect", 1),
    ("disconnect", 2),
    ("client", 0),
    ("client", 1),
    ("admin", 2),
    ("deadline", 2),
    ("deadline", 3),
)
MINUTE_MS: Final = 61_000

DRAWN: Final = """(name) => {
    const chart = Chart.getChart(document.querySelector(`[data-plot=${name}] canvas`));
    return chart.data.datasets.map((each) => [each.label, [...each.data]]);
}"""
COLOURS: Final = """(name) => {
    const canvas = document.querySelector(`[data-plot=${name}] canvas`);
    const {width, height} = canvas;
    const copy = Object.assign(document.createElement("canvas"), {width, height});
    const pen = copy.getContext("2d", {willReadFrequently: true});
    pen.drawImage(canvas, 0, 0);
    const {data} = pen.getImageData(0, 0, width, height);
    const found = new Map();
    for (let at = 0; at < data.length; at += 4) {
        const colour = data[at + 3] === 255 ? `rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})` : "";
        found.set(colour, (found.get(colour) ?? 0) + 1);
    }
    return Object.fromEntries(found);
}"""
INK: Final = """(variable) => {
    const probe = document.querySelector(".mcp-plots").appendChild(document.createElement("i"));
    probe.style.color = `var(--${variable})`;
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
}"""
FOCUSED: Final = """() => {
    const at = document.activeElement;
    return at.getAttribute("href") ?? at.querySelector("table")?.id ?? `${at.tagName} ${at.innerText}`;
}"""


def of_a_day() -> Iterator[tuple[Any, ...]]:
    """Yield the calls of an ordinary day with one bad hour, in the form that the site's question `tally` takes."""
    for hour in range(HOURS):
        busy = 40 + 9 * abs(12 - hour)
        for seconds, part in ((0.05, 3), (0.3, 5), (2.0, 2), (20.0, 1)):
            yield (hour, "run", "completed", "", 0, seconds, busy * part)
        yield (hour, "run", "failed", "", 0, 0.1, busy * (4 if hour == 7 else 1) // 3)
        yield (hour, "wait", "completed", "", 0, 0.02 * (40 if hour == 7 else 1), busy * 11)
        for cause, stage in STOPS:
            cancelled = 1 + (hour * stage + len(cause)) % 7
            yield (hour, "run", "cancelled", cause, stage, 5.0, cancelled)
            yield (hour, "stop", "cancelled", cause, stage, 0.01 * 10**stage, cancelled)
    yield (7, "run", "lost", "", 0, None, 15)


@pytest.fixture(scope="module")
def tallied(running_stack: Stack) -> list[tuple[Any, ...]]:
    """Stores tallies of a tool that has no others, and returns them."""
    counted = list(of_a_day())
    running_stack.ask("tally", tool="plotted", ended=counted)
    running_stack.ask("tally", tool=TEXT[:128], ended=[(0, "run", "completed", "", 0, 1.0, 1)])
    return counted


@pytest.fixture
def page(tallied: list[tuple[Any, ...]], browse: "Browse") -> "Page":
    page = browse("watcher", viewport={"width": 1280, "height": 1000})
    page.goto(f"{pages.ACTIVITY}?tool=plotted")
    return page


def drawn(page: "Page", plot: str) -> dict[str, list[float | None]]:
    expect(page.locator(f"[data-plot={plot}] canvas")).to_be_visible()
    return dict(page.evaluate(DRAWN, plot))


def test_the_plots_show_what_the_database_holds(page: "Page", tallied: list[tuple[Any, ...]]) -> None:
    ended: Counter[tuple[int, str]] = Counter()
    stopped: Counter[tuple[str, str]] = Counter()
    for hour, measure, status, cause, stage, _, count in tallied:
        if measure == "run":
            ended[hour, status] += count
        if measure == "stop":
            stopped[cause, STAGES[stage]] += count
    expected = {
        status: [ended[hour, status] for hour in reversed(range(HOURS))]
        for status in ("completed", "failed", "cancelled", "lost")
    }
    found = drawn(page, "calls")
    # The hour may have ended since the tallies were written.
    assert {status: [*filter(None, values)] for status, values in found.items()} == {
        status: [*filter(None, values)] for status, values in expected.items()
    }
    total = [sum(column) for column in zip(*found.values(), strict=True)]
    shares = drawn(page, "shares")["cancelled"]
    assert shares == [each / of if of else None for each, of in zip(found["cancelled"], total, strict=True)]
    causes = drawn(page, "causes")
    names = ("disconnect", "client", "admin", "deadline")
    assert causes == {stage: [stopped[cause, stage] for cause in names] for stage in STAGES}
    for measure in ("run", "wait", "stop"):
        found = drawn(page, measure)
        for name, share in (("half (p50)", 0.5), ("95 % (p95)", 0.95)):
            assert [value for value in found[name] if value] == pytest.approx(quantiles(tallied, measure, share))


def quantiles(tallied: list[tuple[Any, ...]], measure: str, share: float) -> list[float | None]:
    """Return the expected quantile of each hour, oldest first."""
    held = [durations.Histogram() for _ in range(HOURS)]
    for hour, measured, *_, seconds, count in tallied:
        if measured == measure and seconds is not None:
            held[hour].add(durations.bucket_of(seconds), count, count * seconds)
    return [hour.quantile(share) for hour in reversed(held)]


def test_every_plot_is_drawn_and_has_its_numbers_in_a_table(page: "Page") -> None:
    for plot in PLOTS:
        canvas = page.locator(f"[data-plot={plot}] canvas")
        expect(canvas).to_have_role("img")
        expect(canvas).to_have_attribute("aria-label", canvas_label(page, plot))
        assert len(page.evaluate(COLOURS, plot)) > 3, f"{plot} is blank"
    table = page.locator("#mcp-plot-calls")
    expect(table).to_be_hidden()
    page.locator("section", has=table).get_by_text("As a table").click()
    expect(table).to_be_visible()
    shown = [[int(cell.replace(",", "")) for cell in row.locator("td").all_inner_texts()]
             for row in table.locator("tbody tr").all()]  # fmt: skip
    assert [list(column) for column in zip(*reversed(shown), strict=True)] == list(drawn(page, "calls").values())


def canvas_label(page: "Page", plot: str) -> re.Pattern[str]:
    """Return a pattern for the canvas's label: the plot's title and a summary with numbers."""
    return re.compile(f"^{re.escape(page.locator(f'#mcp-plot-{plot}-title').inner_text())}: .*[0-9].*$", re.IGNORECASE)


def test_the_plots_follow_the_theme(page: "Page") -> None:
    seen = []
    for theme in ("light", "dark", "light"):
        while page.evaluate("document.documentElement.dataset.theme") != theme:
            page.get_by_role("button", name="Toggle theme").first.click()
        ink = page.evaluate(INK, "mcp-look-completed")
        page.wait_for_function(f"(ink) => (({COLOURS})('calls'))[ink] > 100", arg=ink)
        seen.append(ink)
    assert seen[0] == seen[2] != seen[1]


def test_what_the_reader_prefers_is_followed_without_a_click(page: "Page") -> None:
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        ink = page.evaluate(INK, "mcp-look-p95")
        page.wait_for_function(f"(ink) => (({COLOURS})('run'))[ink] > 10", arg=ink)


def test_the_keyboard_reaches_the_filters_and_every_table(page: "Page") -> None:
    reached = set()
    for _ in range(400):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUSED)
        if at == "SUMMARY As a table":
            page.keyboard.press("Enter")
        elif at.startswith("BODY"):
            break
        reached.add(at)
    assert {"?tool=plotted", "?period=7d&tool=plotted", "?period=30d&tool=plotted", "?"} <= reached
    assert {f"mcp-plot-{plot}" for plot in PLOTS} <= reached
    page.locator("a", has_text="Last 7 days").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Last 7 days: plotted")).to_be_visible()


def test_what_is_in_flight_moves_by_itself(stack: Stack, steps: Path, page: "Page") -> None:
    page.evaluate("window.loadedOnce = true")
    running = page.locator("#mcp-now-running")
    expect(running).to_have_text("0")
    calling, _ = start_indexing(stack, steps)
    expect(running).to_have_text("1")
    calling.close()
    expect(running).to_have_text("0")
    assert page.evaluate("window.loadedOnce")


def test_the_statistics_renew_themselves_and_leave_what_was_opened_open(
    stack: Stack, tallied: list[tuple[Any, ...]], browse: "Browse"
) -> None:
    page = browse("watcher")
    page.clock.install()
    page.goto(f"{pages.ACTIVITY}?tool=renewed")
    expect(page.locator("#mcp-calls")).to_have_text("0")
    page.get_by_text("As a table").first.click()
    stack.ask("tally", tool="renewed", ended=[(0, "run", "completed", "", 0, 1.0, 1234)])
    page.clock.fast_forward(MINUTE_MS)
    expect(page.locator("#mcp-calls")).to_have_text("1,234")
    page.wait_for_function(f"({DRAWN})('calls')[0][1].includes(1234)")
    expect(page.locator("#mcp-plot-calls")).to_be_visible()
    expect(page.locator("#mcp-plot-run")).to_be_hidden()


def test_a_page_that_is_not_kept_current_says_so(page: "Page") -> None:
    state = page.locator("#content-main").get_by_role("status").first
    expect(state).to_have_text("")
    page.context.clear_cookies()
    expect(state).to_contain_text("load the page")


def test_without_scripts_the_tables_are_read(tallied: list[tuple[Any, ...]], browse: "Browse") -> None:
    page = browse("watcher", java_script_enabled=False)
    page.goto(f"{pages.ACTIVITY}?tool=plotted")
    for plot in PLOTS:
        expect(page.locator(f"#mcp-plot-{plot}")).to_be_visible()


@pytest.mark.fault("G7")
def test_a_tools_name_is_inert(page: "Page") -> None:
    page.goto(pages.ACTIVITY)
    expect(page.locator("#mcp-tools")).to_be_visible()
    assert_inert(page, shown=1)


def test_it_is_found_from_a_tool_and_from_the_index(
    tallied: list[tuple[Any, ...]], browse: "Browse", picture: "Picture"
) -> None:
    page = browse("chief", viewport={"width": 1280, "height": 1060})
    page.goto(pages.tool("index_documents"))
    page.get_by_role("link", name="Its activity").click()
    expect(page.get_by_role("heading", name="Last 24 hours: index_documents")).to_be_visible()
    page.evaluate("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
    page.goto(pages.INDEX)
    page.get_by_role("main").get_by_role("link", name="Activity").first.click()
    page.goto(f"{pages.ACTIVITY}?tool=plotted")
    expect(page.locator("[data-plot=stop] canvas")).to_be_visible()
    picture("activity", page)
