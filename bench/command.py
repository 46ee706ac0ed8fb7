"""The parts that all `bench` commands share: the heading of their output, progress messages and the exit status."""

import signal
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from bench import machine

Say = Callable[[str], None]


class NoMeasurementError(Exception):
    """The measurement is not possible. The message gives the reason."""


def run(measure: Callable[[], int]) -> int:
    """Return the exit status of `measure`.

    Returns 2 and prints the reason if `measure` raises `NoMeasurementError`. Returns 130 after SIGTERM or Ctrl-C, once
    all started processes have ended.
    """
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
    """Make SIGTERM raise `KeyboardInterrupt`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def say_what(program: str, started: Iterable[str] = ()) -> None:
    """Print the command, the started command lines, the date, the machine and the versions.

    `program` is the module name after `python -m`.
    """
    print(f"command   {_line(program)}")
    for command in started:
        print(f"started   {command}")
    print(f"date      {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    print(f"machine   {machine.describe()}")
    print(f"versions  {machine.versions()}", flush=True)


def told(program: str) -> dict[str, Any]:
    """Return the command, the end time, the machine and the versions for a JSON file."""
    return {
        "command": _line(program),
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "versions": machine.versions(),
    }


def saying() -> Say:
    """Return a function that prints a progress message with the seconds since now."""
    began_at = time.monotonic()
    return lambda what: print(f"{time.monotonic() - began_at:7.1f} s  {what}", file=sys.stderr, flush=True)


def _line(program: str) -> str:
    return " ".join([f"python -m {program}", *sys.argv[1:]])
