"""`python -m bench.disk.purge`: what `mcp purge` does, timed, and what there was to purge.

In the environment of a site that was filled. Processor time is this process's: SQLite's is in it, PostgreSQL's is not.
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
