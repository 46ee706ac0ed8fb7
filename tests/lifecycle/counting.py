"""A process that counts calls as a server process does, beside others that count the same."""

import os
from typing import Any

from tests.lifecycle.racing import race


def prepare(environment: dict[str, str], caches: dict[str, Any]) -> None:
    """A site with these caches."""
    import django
    from django.conf import settings

    os.environ.update(environment)
    django.setup()
    settings.CACHES = caches  # before anybody has asked for a cache


def let_in(rate: str, who: str, now: float, threads: int, calls: int) -> int:
    """How many of the calls of each thread are let in, all threads at once."""
    from mcp_app.lifecycle.call_rates import CallRate, take

    read = CallRate.read(rate)

    def call() -> int:
        return sum(take(read, (who,), now) == 0 for _ in range(calls))

    return sum(race(*[call] * threads))
