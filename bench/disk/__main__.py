"""`python -m bench.disk`: stores calls of each kind, purges calls of several weeks, and prints the costs of both."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import command
from bench.figures import aligned
from bench.stack import Choice, on_engines

PROGRAM = "bench.disk"
CALLS = 2_000
ENDED = 100_000
LEAST = 1_000
SECONDS = 3600.0
SETTINGS = "bench.disk.settings"

Sizes = Mapping[str, Mapping[str, float]]
"""The bytes of rows and of indexes, by a name for some tables."""


def main() -> int:
    options = _options()
    return command.run(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    choice = Choice("embedded", "uvicorn", "", options.postgresql, SETTINGS)
    command.say_what(PROGRAM)
    stored = _told(choice, ("bench.disk.store", str(options.calls)))
    print(f"\n{leaves(stored['kinds'], stored['packed'])}", flush=True)
    purged = _told(choice, ("bench.million.fill", str(options.ended)), ("bench.disk.purge",))
    print(f"\n{deleted(purged)}")
    if options.json:
        told = command.told(PROGRAM) | {"stored": stored, "purged": purged}
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    return 0


def _told(choice: Choice, *programs: tuple[str, ...]) -> dict[str, Any]:
    """Run programs one after another on a site with empty databases, and return the JSON that the last one prints."""
    with on_engines(choice) as stack:
        said = [stack.run("-m", *program, seconds=SECONDS) for program in programs]
    told: dict[str, Any] = json.loads(said[-1])
    return told


def leaves(kinds: Mapping[str, Sizes], packed: float) -> str:
    """Return a table of the bytes per call, by its kind and the tables, for rows and indexes."""
    rows = [["bytes a call leaves", *next(iter(kinds.values())), "all"]]
    for kind, sizes in kinds.items():
        each = [f"{size['rows']:,.0f} + {size['indexes']:,.0f}" for size in sizes.values()]
        rows.append([kind, *each, f"{sum(size['rows'] + size['indexes'] for size in sizes.values()):,.0f}"])
    return f"{aligned(rows)}\nWritten anew without a gap all of it would take {packed:.0%} of that."


def deleted(told: Mapping[str, Any]) -> str:
    """Return a table of the number of deleted rows, their rate and their processor time."""
    rows = [["mcp purge", "deleted", "s", "a second", "CPU ms each"]]
    for what in ("requests", "attempts"):
        count, seconds = told[what]["deleted"], told[what]["seconds"]
        each = f"{told[what]['cpu_seconds'] * 1000 / count:.2f}" if count else "–"
        rows.append([what, f"{count:,}", f"{seconds:.1f}", f"{count / seconds:,.0f}", each])
    return aligned(rows)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.disk", description="What calls leave, and purging it.")
    made.add_argument("--calls", type=int, default=CALLS, help=f"of each kind ({CALLS})")
    made.add_argument("--ended", type=int, default=ENDED, help=f"that are purged; a multiple of 1000 ({ENDED})")
    made.add_argument("--postgresql", metavar="URL", help="a new database beside that one instead of SQLite")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every number there as well")
    return made


def _options() -> argparse.Namespace:
    asked = parser()
    options = asked.parse_args()
    if options.ended < LEAST or options.calls < 1:
        asked.error(f"at least one call of each kind, and {LEAST} that are purged")
    return options


if __name__ == "__main__":
    sys.exit(main())
