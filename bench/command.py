"""What every command of `bench` says and how it ends: on what it measures, how far it is, its status.

Refuses to measure.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from bench import machine

Say = Callable[[str], None]


class NoMeasurementError(Exception):
    """What is asked for cannot be measured; the text says why."""


def run(measure: Callable[[], int]) -> int:
    """The status of `measure`; 2, and a sentence, where it could not; 130 where it was told to stop, by SIGTERM as by
    Ctrl-C, so that what it started is ended first."""
    end_by_exception()
    try:
        return measure()
    except NoMeasurementError as error:
        print(f"No measurement: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped; everything that was started is gone.", file=sys.stderr)
        return 130


def end_by_exception() -> None:
    """Have SIGTERM raise KeyboardInterrupt."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def say_what(program: str, started: Iterable[str] = ()) -> None:
    """Print on what is measured: `program` is what follows `python -m`, `started` the command lines of a site."""
    print(f"command   {_line(program)}")
    for command in started:
        print(f"started   {command}")
    print(f"date      {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    print(f"machine   {machine.describe()}")
    print(f"versions  {machine.versions()}", flush=True)


def told(program: str) -> dict[str, Any]:
    """The same for a JSON file."""
    return {
        "command": _line(program),
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "versions": machine.versions(),
    }


def saying() -> Say:
    """A function that says what has been reached, and after how many seconds."""
    began_at = time.monotonic()
    return lambda what: print(f"{time.monotonic() - began_at:7.1f} s  {what}", file=sys.stderr, flush=True)


def _line(program: str) -> str:
    return " ".join([f"python -m {program}", *sys.argv[1:]])
