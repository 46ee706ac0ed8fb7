"""A process that counts calls as a server process does, while others count the same calls."""

import os
from typing import Any

from tests.support.racing import race


def prepare(environment: dict[str, str], caches: dict[str, Any]) -> None:
    """Set up a site with these caches."""
    import django
    from django.conf import settings

    os.environ.update(environment)
    django.setup()
    settings.CACHES = caches  # before any code has used a cache


def let_in(rate: str, who: str, now: float, threads: int, calls: int) -> int:
    """Return how many calls of each thread are admitted if all threads call at once."""
    from mcp_app.lifecycle.limits.call_rates import CallRate, take

    read = CallRate.read(rate)

    def call() -> int:
        return sum(take(read, (who,), now) == 0 for _ in range(calls))

    return sum(race(*[call] * threads))
