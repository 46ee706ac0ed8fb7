"""`python -m bench`: parses, starts, measures, prints, stops."""

import argparse
import asyncio
import json
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine
from bench.engines import NoEngineError
from bench.figures import Measured, table
from bench.measures import Bench, Counts
from bench.stack import Choice, Stack, StackError, running


def main() -> int:
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    choice = Choice(options.stack, options.server, options.redis, options.postgresql)
    began_at = time.monotonic()
    try:
        with running(choice) as stack:
            _say_what(stack)
            measures = asyncio.run(_measure(stack, Counts().quick() if options.quick else Counts()))
    except (NoEngineError, StackError) as error:
        print(f"No measurement: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped; everything that was started is gone.", file=sys.stderr)
        return 130
    print(f"\n{table(measures)}\n\n{time.monotonic() - began_at:.0f} s; no process left.")
    if options.json:
        options.json.write_text(json.dumps(_report(stack, measures), indent=1) + "\n")
    return 1 if any(measured.failure for measured in measures) else 0


async def _measure(stack: Stack, counts: Counts) -> list[Measured]:
    began_at = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began_at:6.1f} s  {what}", file=sys.stderr, flush=True)

    bench = Bench(stack, counts)
    await bench.ready()
    say("ready and warm")
    measures = []
    async for measured in bench.measure():
        say(measured.name.strip())
        measures.append(measured)
    return measures


def _say_what(stack: Stack) -> None:
    print(f"command   {_command_line()}")
    for command in stack.commands:
        print(f"started   {command}")
    print(f"date      {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    print(f"machine   {machine.describe()}")
    print(f"versions  {machine.versions()}", flush=True)


def _report(stack: Stack, measures: list[Measured]) -> dict[str, Any]:
    return {
        "command": _command_line(),
        "started": stack.commands,
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "versions": machine.versions(),
        "measures": [measured.as_json() for measured in measures],
    }


def _command_line() -> str:
    return " ".join(["python -m bench", *sys.argv[1:]])


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the real site, started for it.")
    parser.add_argument("--stack", choices=("embedded", "redis"), default="embedded", help="the broker")
    parser.add_argument("--server", choices=("daphne", "uvicorn"), default="daphne")
    parser.add_argument(
        "--redis", default="redis://127.0.0.1:6379", metavar="URL", help="an empty database of it is used"
    )
    parser.add_argument("--postgresql", metavar="URL", help="rows in a new database beside this one, instead of SQLite")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    parser.add_argument("--quick", action="store_true", help="fewer samples: under a minute")
    return parser


if __name__ == "__main__":
    sys.exit(main())
