"""`python -m bench.admin`: creates and fills a database, requests every page and prints its cost."""

import argparse
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import command, machine
from bench.engines import postgresql_database

if TYPE_CHECKING:
    from bench.admin.visiting import Visit

PROGRAM = "bench.admin"
FEW: Final = 10_000
MANY: Final = 1_000_000
LEAST: Final = 2_000


def main() -> int:
    options = _options()
    return command.run(lambda: _borrow(options))


def _borrow(options: argparse.Namespace) -> int:
    with ExitStack() as borrowed:
        folder = borrowed.enter_context(tempfile.TemporaryDirectory(prefix="mcp-bench-admin-"))
        database = options.postgresql and borrowed.enter_context(postgresql_database(options.postgresql))
        return _run(options, folder, database)


def _run(options: argparse.Namespace, folder: str, database: str | None) -> int:
    _set_up(folder, database)
    from bench.admin import report  # models need Django set up
    from bench.admin.rounds import Rounds

    command.say_what(PROGRAM)
    others = machine.Others()
    rounds = Rounds(command.saying(), options.samples, options.pages)
    try:
        few = {visit.page.name: len(visit.queries) for visit in rounds.few(min(FEW, options.requests // 2))}
        visits = rounds.many(options.requests)
    finally:
        rounds.close()
    print(f"\n{report.slowest(visits)}\n\n{report.table(visits, few)}\n")
    print(f"{rounds.held}; others used {others.cores():.2f} cores.")
    _write(options.json, visits, few)
    late, faults = report.missed(visits), report.faults(visits, few)
    print(f"Of {len(visits)} pages {len(late)} take longer than {report.GOAL_MS:g} ms; {len(faults)} are at fault.")
    print("\n".join(faults))
    return 1 if faults else 0


def _set_up(folder: str, database: str | None) -> None:
    """Set up Django in this process for a site in an empty folder."""
    for name in [name for name in os.environ if name.startswith("MCPSITE_")]:
        del os.environ[name]
    # With DEBUG, Django keeps every query in memory.
    os.environ |= {"MCPSITE_DATA": folder, "MCPSITE_DEBUG": "0", "MCPSITE_HOSTS": "testserver"}
    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.admin.settings"
    if database:
        os.environ["MCPSITE_DATABASE"] = database
    import django

    django.setup()


def _write(file: Path | None, visits: "list[Visit]", few: dict[str, int]) -> None:
    from bench.admin import report

    if file is not None:
        pages = [report.as_json(visit, few) for visit in visits]
        file.write_text(json.dumps(command.told(PROGRAM) | {"pages": pages}, indent=1) + "\n")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.admin", description="Ask for every page of the admin.")
    made.add_argument("--requests", type=int, default=MANY, help=f"that have ended; a multiple of 1000 ({MANY})")
    made.add_argument("--postgresql", metavar="URL", help="in a new database beside this one, instead of SQLite")
    made.add_argument("--pages", default="", metavar="TEXT", help="only those whose name has this text")
    made.add_argument("--samples", type=int, default=5, help="how often each page is asked for (5)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    return made


def _options() -> argparse.Namespace:
    asked = parser()
    options = asked.parse_args()
    if options.requests < LEAST:
        asked.error(f"at least {LEAST} requests")
    return options


if __name__ == "__main__":
    sys.exit(main())
