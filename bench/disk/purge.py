"""`python -m bench.disk.purge`: purges like `mcp purge`, and prints the times and the sizes before it.

Run this in the environment of a filled site. The processor time is the time of this process, which includes the work of
SQLite but not of PostgreSQL.
"""

import json
import time
from collections.abc import Callable

import django


def main() -> None:
    django.setup()
    from bench.disk import sizes
    from mcp_app.lifecycle.supervision import purging  # models need Django set up

    held = sizes.of_site()
    told = {"requests": _timed(purging.purge_requests), "attempts": _timed(purging.purge_audit)}
    print(json.dumps({**told, "held": held}))


def _timed(purge: Callable[[], int]) -> dict[str, float]:
    began_at, used = time.perf_counter(), time.process_time()
    deleted = purge()
    return {
        "deleted": deleted,
        "seconds": time.perf_counter() - began_at,
        "cpu_seconds": time.process_time() - used,
    }


if __name__ == "__main__":
    main()
