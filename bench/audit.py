"""`python -m bench.audit`: what the server itself wrote down about the cancellations of this run.

Run in the environment of the site that is measured; prints a JSON object: for each tool the milliseconds from each
accepted cancellation to the stop.
"""

import json

import django


def latencies() -> dict[str, list[float]]:
    """Milliseconds by tool, of the disconnects that were settled."""
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
