"""`python -m bench.million.fill REQUESTS`: fills the empty database of the site whose environment this process has.

The requests are always spread over the same number of weeks, so tables with a row for each day have the same length.
"""

import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

import django

AT_ONCE: Final = 10_000
WEEKS: Final = timedelta(days=35)
"""The period for which calls are counted by hour."""


def main() -> None:
    django.setup()
    from django.core.management import call_command
    from django.db import connections

    from bench.admin import filling, samples  # models need Django set up

    for alias in connections:
        call_command("migrate", database=alias, verbosity=0)
    requests = int(sys.argv[1])
    site = filling.begin_with_ended(apart=WEEKS / (requests // samples.SAMPLES))
    filling.grow(site, requests, last=True)
    _fill_results()


def _fill_results() -> None:
    """Store Celery's results of the requests that did not complete."""
    from django_celery_results.models import TaskResult

    from mcp_app.models import Request
    from mcp_app.states import Status

    now = datetime.now(UTC)
    requests = Request.objects.exclude(status=Status.COMPLETED).order_by()
    keys = requests.values_list("pk", flat=True).iterator(AT_ONCE)
    while ids := list(islice(keys, AT_ONCE)):
        some = [
            TaskResult(
                task_id=str(pk), task_name="mcp_app.run", status="FAILURE", content_type="application/json",
                content_encoding="utf-8", result="null", meta='{"children": []}', worker="celery@bench",
                date_started=now, date_done=now,
            )
            for pk in ids
        ]  # fmt: skip
        TaskResult.objects.bulk_create(some)


if __name__ == "__main__":
    main()
