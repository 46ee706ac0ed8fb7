"""`python -m tests.chaos`: make a run, wait until the site is quiet, check it, and print the findings.

The exit status is 1 if anything is wrong, and 2 if an engine's programs are missing.
"""

import argparse
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.chaos import journal, plan, report, rows, site
from tests.chaos.crowd import Crowd
from tests.chaos.faults import Faults
from tests.chaos.ledger import Ledger
from tests.chaos.site import Site
from tests.chaos.verdict import answers, left, lives, service, work
from tests.support.site.services import ServicesMissingError

NO_ENGINES: Final = 2


def main() -> int:
    options = _options()
    data = Path(tempfile.mkdtemp(prefix="mcp-chaos-", dir=options.folder))
    _say(f"seed {options.seed}, {options.minutes:g} min on {options.stack}, {options.clients} clients, in {data}")
    found = 0
    try:
        with site.opened(options.stack, data) as running:
            for finding in _run(running, options):
                found += 1
                _say(f"FINDING {finding}")
    except ServicesMissingError as error:
        _say(f"{options.stack}: {error}")
        shutil.rmtree(data)
        return NO_ENGINES
    _say(f"{found} findings; seed {options.seed}")
    if found or options.keep:
        _say(f"what its programs wrote, what its tools did and what its clients were told is in {data}")
    else:
        shutil.rmtree(data)
    return 1 if found else 0


def _run(running: Site, options: argparse.Namespace) -> Iterator[str]:
    ledger = Ledger()
    shape = left.processes(running)
    crowd = Crowd(running, ledger, options.seed, options.clients)
    faults = Faults(running, options.seed)
    with running.keeping():
        crowd.start()
        faults.start()
        _progress(options.minutes * 60, ledger, faults)
        faults.stop()
        _say("no more faults: the clients end what they are about")
        crowd.stop()
        running.await_service()
        _await_quiet(running, options.quiet)
    yield from crowd.problems
    yield from faults.problems
    ledger.save(running.data / "ledger.jsonl")
    _save_faults(faults, running.data / "faults.txt")
    yield from _judge(running, ledger, faults)
    yield from service.findings(running)
    _await_quiet(running, options.quiet)
    yield from _patiently(lambda: list(left.while_it_runs(running, shape)))
    yield from _audit(running)
    yield from running.stop()
    yield from _patiently(lambda: list(left.afterwards(running)))


def _judge(running: Site, ledger: Ledger, faults: Faults) -> Iterator[str]:
    found = rows.Rows.read(running.environment)
    done = journal.read(running.journal)
    for line in report.lines(ledger, faults, found, done):
        _say(line)
    yield from lives.findings(found)
    yield from answers.findings(running.troubled, ledger, found)
    yield from work.findings(found, done)


def _audit(running: Site) -> Iterator[str]:
    try:
        verified = running.manage("audit", "verify", within=VERIFYING)
    except subprocess.TimeoutExpired:
        yield f"the audit is not verified within {VERIFYING:g} s"
        return
    if verified.returncode:
        yield f"the audit: {verified.stdout[-1500:]} {verified.stderr[-500:]}"


def _await_quiet(running: Site, seconds: float) -> None:
    """Wait until no request is open and no tool's file grows, for `seconds` at most."""
    until = time.monotonic() + seconds
    before = -1.0
    while time.monotonic() < until:
        newest = max((path.stat().st_mtime for path in running.journal.iterdir()), default=0.0)
        if newest == before and not running.ask("open requests"):
            return
        before = newest
        time.sleep(1.0)


VERIFYING: Final = 240.0
SETTLING: Final = 20.0
"""Seconds within which the last processes, connections and files must disappear."""


def _patiently(look: Callable[[], list[str]]) -> Iterable[str]:
    until = time.monotonic() + SETTLING
    while (found := look()) and time.monotonic() < until:
        time.sleep(0.5)
    return found


def _progress(seconds: float, ledger: Ledger, faults: Faults) -> None:
    until = time.monotonic() + seconds
    while (remaining := until - time.monotonic()) > 0:
        time.sleep(min(remaining, 30.0))
        _say(f"  {len(ledger.calls)} calls, {len(faults.done)} faults, {max(0.0, remaining - 30):.0f} s to go")


def _save_faults(faults: Faults, path: Path) -> None:
    path.write_text(
        "".join(f"{done.began_at:.3f} {done.ended_at:.3f} {done.fault} {done.what}\n" for done in faults.done)
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description="Random clients on a site whose processes and engines fail; then what must hold.",
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--stack", choices=plan.STACKS, default="embedded")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--quiet", type=float, default=60.0, metavar="SECONDS", help="what the site may take to settle")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--folder", default=None, help="where the run's own folder is made")
    parser.add_argument("--keep", action="store_true", help="keep that folder also where nothing was found")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = secrets.randbelow(1_000_000)
    return options


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
