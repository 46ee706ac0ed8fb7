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
SLOW: Final = "See what keeps the database busy; `--timeout` gives each look more time."

CHECKS: Final = (
    DiagnosticCheck(
        database.NAME, database.check, "See that every server of DATABASES is up and reachable from this machine."
    ),
    DiagnosticCheck(migrations.NAME, migrations.check, SLOW, ROWS),
    DiagnosticCheck(
        broker.NAME, broker.check, "See that CELERY_BROKER_URL is right, and the broker reachable from this machine."
    ),
    DiagnosticCheck(workers.NAME, workers.check, SLOW, ROWS),
    DiagnosticCheck(queues.NAME, queues.check, SLOW, ROWS),
    DiagnosticCheck(supervision.NAME, supervision.check, SLOW, ROWS),
    DiagnosticCheck(clocks.NAME, clocks.check, SLOW, ROWS),
    DiagnosticCheck(channel_layer.NAME, channel_layer.check, "See that CHANNEL_LAYERS is right."),
    DiagnosticCheck(results.NAME, results.check, SLOW, ROWS),
    DiagnosticCheck(audit.NAME, audit.check, SLOW, ROWS),
)
