"""Describes the conditions of a run: the machine, the versions, and the processor time of other processes."""

import os
import platform
import subprocess
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

PACKAGES = ("Django", "celery", "kombu", "channels", "daphne", "uvicorn", "redis", "psycopg")
ROOT = Path(__file__).resolve().parent.parent


def describe() -> str:
    """Return the cores, processor, memory, system and load in one line."""
    memory = psutil.virtual_memory().total / 2**30
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    system = f"{platform.system()} {platform.release()}"
    return f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GiB, {system}, load {load}"


def versions() -> str:
    """Return the versions of Python and of `PACKAGES`, and this project's commit."""
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return ", ".join([*found, f"commit {_commit()}"])


class Others:
    """Measures the processor time of everything except this process and its descendants."""

    def __init__(self) -> None:
        self._began_at = time.monotonic()
        self._used = _others_used()

    def cores(self) -> float:
        """Return the mean number of cores that were used since this object was created."""
        used = _others_used() - self._used
        return max(0.0, used / (time.monotonic() - self._began_at))


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """Return the processor time of these processes and of their ended children."""
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _others_used() -> float:
    times = psutil.cpu_times()
    busy = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
    ourselves = psutil.Process()
    return float(busy) - cpu_seconds([ourselves, *ourselves.children(recursive=True)])


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
