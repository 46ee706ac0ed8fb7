"""Clients that listen for changes of lists for a while, and then disconnect by RST or by FIN."""

import time

from tests.chaos.clients.conversation import BROKEN, leave, reach
from tests.chaos.clients.doors import Doors
from tests.chaos.ledger import Ledger
from tests.chaos.plan import Errand
from tests.chaos.site import Site
from tests.support.site.wire import message


def listener(site: Site, ledger: Ledger, doors: Doors, errand: Errand) -> None:
    """Open one stream, and read it until the errand's time is over."""
    until = time.monotonic() + errand.seconds
    connection = reach(site, ledger, errand)
    if connection is None:
        return
    try:
        connection.wait_at_most(errand.seconds)
        connection.post(message("subscriptions/listen", errand.tag, notifications={"toolsListChanged": True}))
        if connection.response.status != 200:
            ledger.count("streams refused")
            return
        for _ in connection.frames():
            ledger.count("frames heard")
            if time.monotonic() > until:
                break
        ledger.count("streams listened to")
    except TimeoutError:
        ledger.count("streams listened to")
    except BROKEN:
        ledger.count("streams cut")
    finally:
        leave(connection, by_reset=errand.ending in ("rst", "word"))
