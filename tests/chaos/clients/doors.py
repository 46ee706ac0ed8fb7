"""Ways to cancel a call without its client: the command line, and the admin over HTTP."""

import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Final
from uuid import uuid4

from tests.chaos import journal
from tests.chaos.ledger import Call
from tests.chaos.plan import Errand
from tests.chaos.site import ADMINISTRATOR, Site
from tests.support.site.browsing import Browser

APPEARING: Final = 1.5


class Doors:
    """Shared by all clients of a run."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._browsers: dict[int, Browser] = {}

    def command(self, errand: Errand, call: Call) -> None:
        """Run `mcp cancel`, as an operator at the site's terminal would."""
        request_id = self._request_id(call)
        try:
            done = self._site.manage("cancel", request_id, "--reason", f"chaos {call.tag}")
        except Exception as error:
            call.doors.append(f"command: {error}")
            return
        call.doors.append(f"command {request_id}: {done.returncode}: {(done.stdout + done.stderr).strip()[-200:]}")

    def admin(self, errand: Errand, call: Call) -> None:
        """Post the request's cancellation form in the admin."""
        request_id = self._request_id(call)
        try:
            browser = self._browser(self._site.ports[errand.other % len(self._site.ports)])
            status, _ = browser.post(f"/admin/mcp_app/request/{request_id}/cancel/", reason=f"chaos {call.tag}")
        except (OSError, HTTPException, AssertionError) as error:
            call.doors.append(f"admin: {type(error).__name__}: {error}")
            return
        call.doors.append(f"admin {request_id}: {status}")

    def _browser(self, port: int) -> Browser:
        with self._lock:
            if port not in self._browsers:
                self._browsers[port] = Browser.of(port, ADMINISTRATOR, self._site.password)
            return self._browsers[port]

    def _request_id(self, call: Call) -> str:
        """Wait until the call's tool runs, and return the request's id.

        If the tool does not start in time, return an id that belongs to no request.
        """
        link = Path(self._site.data, journal.TAGS, call.tag)
        until = time.monotonic() + APPEARING
        while time.monotonic() < until and call.fate == "pending":
            if link.is_symlink():
                return link.readlink().name
            time.sleep(0.02)
        return str(uuid4())
