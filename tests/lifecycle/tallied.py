"""Made-up tallies, at a time that the test chooses."""

from datetime import datetime

from mcp_app.lifecycle.statistics import durations
from mcp_app.models import Tally
from mcp_app.states import Cause, Measure, Stage, Status


def ended(
    hour: datetime,
    status: Status = Status.COMPLETED,
    count: int = 1,
    *,
    tool: str = "dig",
    seconds: float | None = 1.0,
    **columns: object,
) -> None:
    """Add calls that ended in this hour. `seconds` is how long each ran, or `None`."""
    _add(Measure.RUN, hour, status, count, tool, seconds, columns)


def waited(hour: datetime, seconds: float, count: int = 1, *, tool: str = "dig") -> None:
    _add(Measure.WAIT, hour, Status.COMPLETED, count, tool, seconds, {})


def stopped(
    hour: datetime, cause: Cause, stage: Stage = Stage.NONE, *, seconds: float, count: int = 1, tool: str = "dig"
) -> None:
    """Add cancelled calls that took so long to stop."""
    columns: dict[str, object] = {"cause": cause, "stage": stage}
    ended(hour, Status.CANCELLED, count, tool=tool, seconds=None, **columns)
    _add(Measure.STOP, hour, Status.CANCELLED, count, tool, seconds, columns)


def _add(
    measure: Measure,
    hour: datetime,
    status: Status,
    count: int,
    tool: str,
    seconds: float | None,
    columns: dict[str, object],
) -> None:
    bucket = durations.bucket_of(seconds)
    Tally.objects.create(
        hour=hour,
        tool=tool,
        measure=measure,
        status=status,
        bucket=bucket,
        count=count,
        seconds=count * (seconds or 0.0),
        **columns,
    )
