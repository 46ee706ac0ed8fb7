"""The comparison measures all contenders in turn, and judges goals by the figures of one run. Nothing here is timed."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from operator import ge, le
from pathlib import Path

import pytest

from bench.engines import NoEngineError
from bench.machine import ROOT
from bench.peers import environments, report
from bench.peers.contenders import CONTENDERS, Contender, Engines, chosen
from bench.peers.goals import Goal, goals, judge
from bench.peers.measures import MEASURES
from bench.peers.results import Of, Results, spread
from bench.peers.rounds import Run, turns
from bench.peers.servers.fillers import TOOLS, fillers
from bench.peers.target import Amounts, Target

RUN_SECONDS = 110.0
NO_END = float("inf")

OURS = Of("redis-uvicorn", "list", "rate")
THEIRS = Of("mcp", "list", "rate")


def contender(name: str, reason: str = "") -> Contender:
    """Return a contender that cannot be started."""

    @contextmanager
    def start(engines: Engines) -> Iterator[Target]:
        raise NoEngineError(reason)
        yield

    return Contender(name, "floors", name, ("echo",), start)


def results(**values: list[float]) -> Results:
    """Return results of `ours` and `theirs`, with one value for each round."""
    found = Results()
    for name, rounds in values.items():
        of = {"ours": OURS, "theirs": THEIRS}[name]
        for value in rounds:
            found.add(of.contender, of.measure, {of.figure: value})
    return found


def test_every_round_takes_everybody_once() -> None:
    taken = Counter((number, each.name) for number, each in turns([contender("a"), contender("b"), contender("c")], 5))
    assert set(taken.values()) == {1}
    assert len(taken) == 15


def test_no_round_begins_with_whom_the_one_before_began() -> None:
    order = [each.name for _, each in turns([contender("a"), contender("b"), contender("c")], 3)]
    assert order == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


def test_a_contender_whose_engine_is_missing_is_asked_once_and_keeps_nobody_from_their_turn() -> None:
    run = Run(Engines("", ""), Amounts(), NO_END, say=lambda what: None)
    found = run.take([contender("a", "no Redis"), contender("b", "no PostgreSQL")], 3)
    assert [(failure.contender, failure.reason) for failure in found.failures] == [
        ("a", "no Redis"),
        ("b", "no PostgreSQL"),
    ]


def test_a_turn_that_does_not_fit_the_time_is_not_taken_and_said() -> None:
    found = Run(Engines("", ""), Amounts(), 0.0, say=lambda what: None).take([contender("a", "no Redis")], 1)
    assert [failure.reason for failure in found.failures] == ["no time was left"]


def test_a_figure_is_the_median_of_its_rounds() -> None:
    assert results(ours=[1, 900, 2, 3, 4]).median(OURS) == 3


def test_what_was_not_measured_has_no_median() -> None:
    assert results(ours=[1]).median(THEIRS) is None


def test_the_spread_is_half_the_range_as_a_part_of_the_median() -> None:
    assert spread([90, 100, 120]) == 0.15
    assert spread([0, 0, 0]) == 0


@pytest.mark.parametrize(("ours", "met"), [(299, False), (300, True)])
def test_a_goal_is_a_multiple_of_what_the_same_run_found(ours: float, met: bool) -> None:
    verdict = Goal("lists", OURS, ge, 3, "/s", THEIRS).judge(results(ours=[ours], theirs=[90, 100, 200]))
    assert (verdict.met, verdict.bound) == (met, "≥ 3 × mcp = 300 /s")


def test_a_goal_without_its_reference_is_neither_met_nor_missed() -> None:
    verdict = Goal("lists", OURS, ge, 3, "/s", THEIRS).judge(results(ours=[1000]))
    assert (verdict.met, verdict.word) == (None, "not measured")


@pytest.mark.parametrize(("value", "word"), [(8, "met"), (8.01, "MISSED")])
def test_a_goal_of_its_own_needs_no_peer(value: float, word: str) -> None:
    verdict = Goal("alone", OURS, le, 8, "ms").judge(results(ours=[value]))
    assert (verdict.word, verdict.bound) == (word, "≤ 8 ms")


def test_goals_are_of_what_is_measured() -> None:
    named = {of for goal in goals(Amounts()) for of in (goal.what, goal.reference) if of is not None}
    assert [of for of in named if of.measure not in CONTENDERS[of.contender].measures] == []


def test_only_goals_of_this_run_are_judged() -> None:
    assert {verdict.contender for verdict in judge(results(ours=[1], theirs=[1]), Amounts())} == {"redis-uvicorn"}


def test_the_report_says_what_is_missed_and_what_was_not_taken() -> None:
    found = results(ours=[10, 20], theirs=[100])
    found.fail("fastmcp", "", 0, "fastmcp.txt cannot be installed\nlong story")
    text = report.text(found, judge(found, Amounts()))
    assert "15 ±33%" in text
    assert "MISSED" in text
    assert "not taken: fastmcp, all (1×): fastmcp.txt cannot be installed" in text


@pytest.mark.parametrize(
    ("figure", "heading"),
    [("rate_16", "rate /s @16"), ("p50", "p50 ms"), ("kb_each", "kb each"), ("cancel_max", "cancel max ms")],
    ids=["rate", "p50", "memory", "cancel"],
)
def test_a_figure_is_headed_by_its_unit(figure: str, heading: str) -> None:
    assert report.heading(figure) == heading


def test_contenders_are_chosen_by_name_and_by_group() -> None:
    names = [each.name for each in chosen(["floors", "mcp"], ["echo", "list"])]
    bare = ["bare-daphne", "bare-uvicorn", "consumer-daphne", "consumer-uvicorn"]
    assert names == ["mcp", *bare, "celery-embedded", "celery-redis"]
    assert chosen(["mcp"], ["list"])[0].measures == ("list",)


def test_a_contender_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="Nobody is called mpc"):
        chosen(["mpc"], MEASURES)


def test_every_measure_is_taken_of_somebody() -> None:
    assert {name for each in CONTENDERS.values() for name in each.measures} == set(MEASURES)


def test_lists_are_of_one_length() -> None:
    assert len({filler.__name__ for filler in fillers(4)}) == TOOLS - 4


def test_an_environment_is_made_anew_when_its_list_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    listed = tmp_path / "nothing.txt"
    listed.write_text("# nothing\n")
    interpreter = environments.python("nothing", tmp_path / "made")
    assert environments.is_made("nothing", tmp_path / "made")
    assert Path(interpreter).exists()
    listed.write_text("# nothing else\n")
    assert not environments.is_made("nothing", tmp_path / "made")


@pytest.mark.nightly
@pytest.mark.acceptance
@pytest.mark.timeout(RUN_SECONDS + 10)
def test_a_quick_run_measures_this_project_beside_others_and_leaves_no_process(tmp_path: Path) -> None:
    others = ["bare-uvicorn", "celery-embedded", *(["mcp"] if environments.is_made("mcp") else [])]
    target = tmp_path / "run.json"
    command = [sys.executable, "-m", "bench.peers", "--quick", "--peers", ",".join(["embedded-daphne", *others])]
    done = subprocess.run(
        [*command, "--only", "echo,list", "--json", str(target)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(target.read_text())
    assert told["results"].keys() == {"embedded-daphne", *others}
    assert told["results"]["embedded-daphne"]["list"]["tools"]["median"] == TOOLS
    for floor in ("bare-uvicorn", "celery-embedded"):
        assert told["results"][floor]["echo"]["rate_16"]["median"] > 0
    assert {goal["contender"] for goal in told["goals"]} == {"embedded-daphne"}
