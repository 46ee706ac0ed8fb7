"""Write the end of each task into a file, from Celery's signal, because Celery stores no result of a successful run."""

import os
from pathlib import Path
from typing import Any

from celery import signals


def path(data: Path) -> Path:
    """Return the path of a site's file in its data folder."""
    return data / "task-ends"


@signals.task_postrun.connect
def write(task_id: str, state: str | None, **kwargs: Any) -> None:
    with path(Path(os.environ["MCPSITE_DATA"])).open("a") as ends:
        ends.write(f"{task_id} {state}\n")
