"""`python -m bench.steps`: how long a call rested in each of its states, as its row has it.

Run in the environment of the site that is measured; prints a JSON object: for each step the milliseconds of every call
that was delivered, in the database's clock.
"""

import json
from itertools import pairwise

import django

STATES = ("submitted_at", "published_at", "claimed_at", "finished_at", "delivered_at")


def durations() -> dict[str, list[float]]:
    """Milliseconds by step."""
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
