"""`python -m bench.audit`: prints the cancellation latencies that the server recorded in its audit during this run.

Run this in the environment of the measured site. It prints a JSON object that contains, for each tool, the milliseconds
from each accepted cancellation to the stop.
"""

import json

import django


def latencies() -> dict[str, list[float]]:
    """Return the latencies of settled disconnects, in milliseconds, by tool."""
    from mcp_app.models import Cancellation  # models need Django set up
    from mcp_app.states import Cause, Outcome, Stage

    found: dict[str, list[float]] = {}
    disconnects = Cancellation.objects.filter(cause=Cause.DISCONNECT, outcome=Outcome.ACCEPTED, stage__gt=Stage.NONE)
    for tool, latency in disconnects.values_list("tool", "latency_ms"):
        if latency is not None:
            found.setdefault(tool, []).append(latency)
    return found


if __name__ == "__main__":
    django.setup()
    print(json.dumps(latencies()))
