"""Short calls, most of which are cancelled at random moments, some by a kill, and invariants that must hold for each.

By hand: `python -m tests.execution.stress [TASKS] [embedded|engines|redis]`.
"""

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.execution import driver
from tests.execution.site import Site, engines_of

IN_FLIGHT = 5
CANCELLED_SHARE = 0.6
KILLED_SHARE = 0.2


def strain(folder: str, tasks: int, seed: int) -> dict[str, Any]:
    """Make the calls in the driver process, and return a report."""
    chance = random.Random(seed)
    plans = [_plan(chance) for _ in range(tasks)]
    runs = str(Path(folder) / "runs")
    gate = threading.Semaphore(IN_FLIGHT)
    started_at = time.monotonic()

    def call(plan: dict[str, Any]) -> str:
        with gate:
            request_id = driver.submit(
                "brief",
                {"path": runs, "name": plan["name"], "seconds": plan["seconds"]},
                cancel_policy=plan["policy"],
                hard_grace=plan["hard_grace"],
            )
            if plan["cancel_after"] is not None:
                if plan["once_running"]:
                    driver.running(request_id)
                time.sleep(plan["cancel_after"])
                driver.cancel(request_id)
            driver.ended(request_id, 60)
        return request_id

    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        ids = list(pool.map(call, plans))
    return _report(runs, plans, ids, time.monotonic() - started_at)


def _plan(chance: random.Random) -> dict[str, Any]:
    cancelled = chance.random() < CANCELLED_SHARE
    killed = cancelled and chance.random() < KILLED_SHARE
    return {
        "name": f"{chance.getrandbits(64):x}",
        "seconds": chance.uniform(0, 0.02),
        "cancel_after": chance.uniform(0, 0.02) if cancelled else None,
        "once_running": chance.random() < 0.7,
        "policy": "kill" if killed else "interrupt",
        "hard_grace": chance.uniform(0, 0.01),
    }


def _report(runs: str, plans: list[dict[str, Any]], ids: list[str], seconds: float) -> dict[str, Any]:
    from mcp_app.models import Cancellation, Request, RequestEvent
    from mcp_app.states import Stage

    rows = Request.objects.in_bulk(ids)
    ran = Counter(Path(runs).read_text().split())
    ends = Counter(
        RequestEvent.objects.filter(
            request__in=ids, kind="transition", data__status__in=("completed", "failed", "cancelled", "lost")
        ).values_list("request", flat=True)
    )
    pairs = [(plan, rows[key]) for plan, key in zip(plans, map(type(next(iter(rows))), ids), strict=True)]
    return {
        "seconds": round(seconds, 1),
        "statuses": dict(Counter(row.status for row in rows.values())),
        "stages": {Stage(stage).name.lower(): n for stage, n in Counter(row.stage for row in rows.values()).items()},
        "innocent but not completed": [
            (str(row.pk), row.status, row.error)
            for plan, row in pairs
            if plan["cancel_after"] is None and row.status != "completed"
        ],
        "failed": [(str(row.pk), row.status, row.error) for row in rows.values() if row.status in ("failed", "lost")],
        "not exactly one end": [str(key) for key in rows if ends[key] != 1],
        "left killing": [str(row.pk) for row in rows.values() if row.killing and row.stage != Stage.KILL],
        "ran twice": [name for name, times in ran.items() if times > 1],
        "completed but never ran": [
            row.arguments["name"]
            for row in rows.values()
            if row.status == "completed" and not ran[row.arguments["name"]]
        ],
        "audit not settled": Cancellation.objects.filter(request_id__in=ids, settled_at__isnull=True).count(),
        "audit missing": [
            str(row.pk)
            for plan, row in pairs
            if plan["cancel_after"] is not None and Cancellation.objects.filter(request_id=row.pk).count() != 1
        ],
    }


def slots(site: Site, folder: Path, guests: int) -> float:
    """Return the seconds until as many calls as there are slots run at the same time."""
    folder.mkdir()
    started_at = time.monotonic()
    calls = [site.submit("meet", {"folder": str(folder), "name": str(n), "guests": guests}) for n in range(guests)]
    for call in calls:
        assert site.ended(call)["status"] == "completed"
    return time.monotonic() - started_at


def main(tasks: int, kind: str) -> None:
    data = Path(tempfile.mkdtemp(prefix="stress-"))
    with engines_of(kind) as engines, Site.opened(data, engines) as site:
        worker = site.start_worker()
        report = site.ask(strain, str(data), tasks, 1)
        report["slots meet in"] = round(slots(site, data / "guests", 2), 2)
        report["descriptors of main"] = len(list(Path(f"/proc/{worker.pid}/fd").iterdir()))
        report["status of the worker"] = worker.stop()
        report["left"] = site.processes()
        report["errors"] = worker.log.read_text().count("ERROR")
    sys.stdout.writelines(f"{name}: {value}\n" for name, value in report.items())


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["2000"])[0]), (sys.argv[2:] or ["embedded"])[0])
