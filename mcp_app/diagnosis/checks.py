"""All checks, in the order in which they run. A check comes after the checks that it needs."""

from typing import Final

from mcp_app.diagnosis import (
    audit,
    broker,
    channel_layer,
    clocks,
    database,
    migrations,
    queues,
    results,
    supervision,
    workers,
)
from mcp_app.diagnosis.examination import DiagnosticCheck

ROWS: Final = frozenset({database.NAME})
SLOW: Final = "Find what keeps the database busy; `--timeout` gives each check more time."

CHECKS: Final = (
    DiagnosticCheck(
        database.NAME,
        database.check,
        "Check that every server in DATABASES is running and reachable from this machine.",
    ),
    DiagnosticCheck(migrations.NAME, migrations.check, SLOW, ROWS),
    DiagnosticCheck(
        broker.NAME,
        broker.check,
        "Check that CELERY_BROKER_URL is right and that the broker is reachable from this machine.",
    ),
    DiagnosticCheck(workers.NAME, workers.check, SLOW, ROWS),
    DiagnosticCheck(queues.NAME, queues.check, SLOW, ROWS),
    DiagnosticCheck(supervision.NAME, supervision.check, SLOW, ROWS),
    DiagnosticCheck(clocks.NAME, clocks.check, SLOW, ROWS),
    DiagnosticCheck(channel_layer.NAME, channel_layer.check, "Check CHANNEL_LAYERS."),
    DiagnosticCheck(results.NAME, results.check, SLOW, ROWS),
    DiagnosticCheck(audit.NAME, audit.check, SLOW, ROWS),
)
