"""`python -m bench.steps`: prints how long calls stayed in each of their states, from the times in their rows.

Run this in the environment of the measured site. It prints a JSON object that contains, for each step, the milliseconds
of every delivered call, by the database's clock.
"""

import json
from itertools import pairwise

import django

STATES = ("submitted_at", "published_at", "claimed_at", "finished_at", "delivered_at")


def durations() -> dict[str, list[float]]:
    """Return the milliseconds of each delivered call, by step."""
    from mcp_app.models import Request  # models need Django set up

    found: dict[str, list[float]] = {}
    for moments in Request.objects.filter(delivered_at__isnull=False).values_list(*STATES):
        known = [(name, moment) for name, moment in zip(STATES, moments, strict=True) if moment is not None]
        for (before, begun), (after, ended) in pairwise(known):
            step = f"{_state(before)} → {_state(after)}"
            found.setdefault(step, []).append((ended - begun).total_seconds() * 1000)
    return found


def _state(column: str) -> str:
    return column.removesuffix("_at")


if __name__ == "__main__":
    django.setup()
    print(json.dumps(durations()))
