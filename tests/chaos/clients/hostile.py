"""Clients that send invalid or incomplete data, or cancel a task that does not exist. No message creates a request."""

import socket
from typing import Final
from uuid import uuid4

from tests.chaos.clients.conversation import BROKEN, leave, reach
from tests.chaos.clients.doors import Doors
from tests.chaos.clients.tasks import KNOWS
from tests.chaos.ledger import Ledger
from tests.chaos.plan import Errand
from tests.chaos.site import Site
from tests.support.site.wire import BOTH, JSON, message

_NOISE: Final = (
    b"",
    b"{",
    b"[]",
    b"\xff\xfe\x00",
    b'{"jsonrpc": "2.0", "id": 1e999, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "tools/call", "params": {}}',
    b"[" * 50_000,
    b"x" * 5_000_000,
)


def hostile(site: Site, ledger: Ledger, doors: Doors, errand: Errand) -> None:
    """Open one such connection."""
    connection = reach(site, ledger, errand)
    if connection is None:
        return
    try:
        connection.wait_at_most(30)
        what = errand.other % 5
        if what == 0:
            connection.send_part(b'{"jsonrpc": "2.0"', 5_000)
        elif what == 1:
            connection.post(message("tasks/cancel", meta=KNOWS, taskId=str(uuid4())))
            connection.answer()
        elif what == 2:
            _babble(site.ports[errand.server % len(site.ports)])
        else:
            noise = _NOISE[errand.server % len(_NOISE)]
            connection.send(noise, {"Content-Type": JSON, "Accept": BOTH, "MCP-Protocol-Version": "2026-07-28"})
            status = connection.response.status
            ledger.count(f"noise answered with {status}")
    except BROKEN:
        ledger.count("hostile connections cut")
    finally:
        leave(connection, by_reset=errand.twist < 0.5)


def _babble(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as babbling:
        babbling.sendall(b"\x16\x03\x01 GET /mcp HTTP/9.9\r\n" + b"A" * 2_000 + b"\r\n\r\n")
        babbling.settimeout(5)
        babbling.recv(100)
