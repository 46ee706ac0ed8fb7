"""`python -m bench`: starts the site, measures it, stops it and prints the results."""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

from bench import command
from bench.figures import Measured, table
from bench.measures import Bench, Counts
from bench.stack import Choice, Stack, running

PROGRAM = "bench"


def main() -> int:
    options = parser().parse_args()
    return command.run(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    choice = Choice(options.stack, options.server, options.redis, options.postgresql)
    began_at = time.monotonic()
    with running(choice) as stack:
        command.say_what(PROGRAM, stack.commands)
        measures = asyncio.run(_measure(stack, Counts().quick() if options.quick else Counts()))
    print(f"\n{table(measures)}\n\n{time.monotonic() - began_at:.0f} s; no process left.")
    if options.json:
        told = command.told(PROGRAM) | {"started": stack.commands, "measures": [each.as_json() for each in measures]}
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    return 1 if any(measured.failure for measured in measures) else 0


async def _measure(stack: Stack, counts: Counts) -> list[Measured]:
    say = command.saying()
    bench = Bench(stack, counts)
    await bench.ready()
    say("ready and warm")
    measures = []
    async for measured in bench.measure():
        say(measured.name.strip())
        measures.append(measured)
    return measures


def parser() -> argparse.ArgumentParser:
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
