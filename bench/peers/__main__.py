"""`python -m bench.peers`: takes the rounds, prints the results, writes them as JSON and draws them."""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import command
from bench.peers import environments, goals, report
from bench.peers.contenders import CONTENDERS, Engines, chosen
from bench.peers.goals import Verdict
from bench.peers.measures import MEASURES
from bench.peers.results import Results
from bench.peers.rounds import Run
from bench.peers.target import Amounts

PROGRAM = "bench.peers"
ROUNDS = 5
MINUTES = 120.0
PLOT_SECONDS = 120.0
PLOT = Path(__file__).with_name("plot.py")


def main() -> int:
    options = _options()
    if options.list:
        print("\n".join(f"{each.name:18} {each.group:7} {', '.join(each.measures)}" for each in CONTENDERS.values()))
        return 0
    command.end_by_exception()
    _raise_file_limit()
    amounts = Amounts().quick() if options.quick else Amounts()
    engines = Engines(options.redis, options.postgresql, options.environments)
    run = Run(engines, amounts, time.monotonic() + options.minutes * 60, command.saying())
    command.say_what(PROGRAM)
    interrupted = False
    try:
        run.take(options.contenders, options.rounds)
    except KeyboardInterrupt:
        print("Stopped; everything that was started is gone. Until then:", file=sys.stderr)
        interrupted = True
    verdicts = goals.judge(run.results, amounts)
    print(f"\n{report.text(run.results, verdicts)}")
    if options.quick:
        print("\nA quick run: it shows that all of it works, and measures nothing.")
    told = _told(options, run.results, verdicts)
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    if options.plot:
        _draw(told, options.plot, options.environments)
    if interrupted:
        return 130
    return 1 if run.results.failures else 0


def _told(options: argparse.Namespace, results: Results, verdicts: list[Verdict]) -> dict[str, Any]:
    return {
        **command.told(PROGRAM),
        "environments": environments.pinned(),
        "rounds": options.rounds,
        "quick": options.quick,
        "contenders": {
            each.name: {"group": each.group, "title": each.title, "started": results.commands.get(each.name, [])}
            for each in options.contenders
        },
        "results": results.as_json(),
        "goals": [
            {"work": each.work, "contender": each.contender, "value": each.value, "bound": each.bound, "met": each.met}
            for each in verdicts
        ],
        "failures": [
            {"contender": each.contender, "measure": each.measure, "round": each.round, "reason": each.reason}
            for each in results.failures
        ],
    }


def _draw(told: dict[str, Any], target: Path, folder: Path) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as source:
        json.dump(told, source)
        source.flush()
        command = [environments.python("plot", folder), str(PLOT), source.name, str(target)]
        subprocess.run(command, check=True, timeout=PLOT_SECONDS)


def _raise_file_limit() -> None:
    """Allow thousands of sockets in this process and its children, because each stream needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.peers", description="Measure this project beside its peers.")
    made.add_argument("--peers", type=_names, default=[], metavar="A,B", help="contenders or groups; default: all")
    made.add_argument("--only", type=_names, default=list(MEASURES), metavar="A,B", help="measures; default: all")
    made.add_argument("--list", action="store_true", help="say who there is, and what is measured; measure nothing")
    made.add_argument("--rounds", type=int, help=f"default {ROUNDS}, of a quick run 1")
    made.add_argument("--minutes", type=float, default=MINUTES, help=f"no turn begins later; default {MINUTES:g}")
    made.add_argument("--quick", action="store_true", help="little of everything: does it work?")
    made.add_argument("--redis", default="redis://127.0.0.1:6379", metavar="URL", help="empty databases of it are used")
    made.add_argument("--postgresql", default="postgresql://postgres@127.0.0.1", metavar="URL", help="new databases")
    made.add_argument("--environments", type=Path, default=environments.FOLDER, metavar="DIR", help="of the peers")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every value there")
    made.add_argument("--plot", type=Path, metavar="FILE", help="draw it there: .svg or .png")
    return made


def _options() -> argparse.Namespace:
    asked = parser()
    options = asked.parse_args()
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    if unknown := set(options.only) - MEASURES.keys():
        asked.error(f"there is no measure {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    try:
        options.contenders = chosen(options.peers, options.only)
    except ValueError as error:
        asked.error(str(error))
    if not options.contenders:
        asked.error("nobody of these takes any of these measures")
    return options


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


if __name__ == "__main__":
    sys.exit(main())
