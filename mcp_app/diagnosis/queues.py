"""Check the queues of tools: whether a worker consumes each, and how long requests wait in it."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from mcp_app.catalogue import catalogue
from mcp_app.catalogue.registry import registered_tools
from mcp_app.conf import settings
from mcp_app.diagnosis.examination import Finding, SharedFacts, failed, ok, warning
from mcp_app.lifecycle.liveness.queues import QueueAge, queue_ages
from mcp_app.models import Tool

NAME: Final = "queues"
NAMED: Final = 3
"""The most tools of a queue that a finding names."""


def check(shared: SharedFacts) -> Iterator[Finding]:
    """Check all queues that enabled tools use, or in which requests wait."""
    tools = _tools_by_queue()
    ages = {age.queue: age for age in queue_ages()}
    if not tools and not ages:
        yield warning(NAME, "There are no tools.", "Decorate functions with @tool in an installed app's mcp_tools.py.")
    for queue in sorted(tools.keys() | ages.keys()):
        yield _check_queue(queue, tools[queue], ages.get(queue, QueueAge(queue, 0, 0.0)), shared)


def _check_queue(queue: str, tools: list[str], age: QueueAge, shared: SharedFacts) -> Finding:
    waits = f"{age.waiting} wait, the oldest for {age.oldest_seconds:.1f} s" if age.waiting else "none wait"
    takers = [each for each in shared.worker_answers or [] if queue in each.queues and each.runs_tools]
    named = f"{len(tools)} tools" if len(tools) > NAMED else ", ".join(tools) or "used by no tool in the code"
    found = f"{queue} ({named}): {waits}"
    if shared.worker_answers is None:
        found += ", and the workers could not be queried"
    elif not takers:
        remedy = (
            f"Start a worker that consumes it: `python manage.py mcp worker --queues {queue}`, or without --queues."
        )
        return failed(NAME, f"{found}, and no worker consumes it.", remedy)
    else:
        found += f", {len(takers)} {'worker takes' if len(takers) == 1 else 'workers take'} it"
    alarm: float | None = settings.QUEUE_ALARM_AFTER
    if alarm is not None and age.oldest_seconds >= alarm:
        remedy = "Start more workers, or give them more slots (`--concurrency`); the admin shows what holds those up."
        return failed(NAME, f'{found}; the limit is {alarm:g} s (MCP["QUEUE_ALARM_AFTER"]).', remedy)
    return ok(NAME, f"{found}.")


def _tools_by_queue() -> "defaultdict[str, list[str]]":
    """Return the names of the enabled tools by queue. Raises `django.db.Error`."""
    rows = Tool.objects.in_bulk()
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(registered_tools()):
        row = rows.get(name, Tool(name=name))
        offered = catalogue.effective(row) if row.enabled else None
        if offered is not None:
            found[offered.queue].append(name)
    return found
