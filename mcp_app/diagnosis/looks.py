"""All that is looked at, in the order in which it is told: what others stand on comes first."""

from typing import Final

from mcp_app.diagnosis import (
    broker,
    channel_layer,
    clocks,
    database,
    migrations,
    results,
    rounds,
    sealing,
    tool_queues,
    workers,
)
from mcp_app.diagnosis.examination import Look

ROWS: Final = frozenset({database.NAME})
SLOW: Final = "See what keeps the database busy; `--timeout` gives each look more time."

LOOKS: Final = (
    Look(database.NAME, database.look, "See that every server of DATABASES is up and reachable from this machine."),
    Look(migrations.NAME, migrations.look, SLOW, ROWS),
    Look(broker.NAME, broker.look, "See that CELERY_BROKER_URL is right, and the broker reachable from this machine."),
    Look(workers.NAME, workers.look, SLOW, ROWS),
    Look(tool_queues.NAME, tool_queues.look, SLOW, ROWS),
    Look(rounds.NAME, rounds.look, SLOW, ROWS),
    Look(clocks.NAME, clocks.look, SLOW, ROWS),
    Look(channel_layer.NAME, channel_layer.look, "See that CHANNEL_LAYERS is right."),
    Look(results.NAME, results.look, SLOW, ROWS),
    Look(sealing.NAME, sealing.look, SLOW, ROWS),
)
