"""A client over stdio. It starts its own server process, calls, cancels, and ends or kills the process."""

import signal
import subprocess
import time
from contextlib import suppress
from itertools import count
from typing import Any, Final

from tests.chaos.clients.conversation import note
from tests.chaos.clients.modern import arguments
from tests.chaos.ledger import Call, Ledger
from tests.chaos.plan import Errand
from tests.chaos.site import SETTINGS, Site
from tests.support.site import wire
from tests.support.site.line_process import LineProcess
from tests.support.site.stack import MANAGE

PATIENCE: Final = 75.0
OF_ONE_PROCESS: Final = 6
STDIO: Final = -1
"""The server number of the client's own process."""

_numbers = count(1)


class Client:
    """One process, which is used for several errands."""

    def __init__(self, site: Site, ledger: Ledger) -> None:
        self._ledger = ledger
        log = site.data / f"stdio-{next(_numbers)}.log"
        command = [*MANAGE, "mcp", "stdio", "--settings", SETTINGS, "--concurrency=1"]
        self.process = LineProcess(command, site.environment, log, PATIENCE)

    def serve(self, errand: Errand) -> bool:
        """Make one call, and return whether the process can be used again."""
        plan = f"{errand.ending} after {errand.after} s of {errand.seconds} s"
        call = self._ledger.open(Call(errand.tag, "stdio", errand.tool, plan, STDIO))
        body = wire.message("tools/call", errand.tag, name=errand.tool, arguments=arguments(errand))
        try:
            self.process.send(body)
            if errand.ending in ("stay", "command", "admin"):
                self._hear(call, PATIENCE)
                return True
            self._hear(call, errand.after)
            return self._end(errand, call)
        except (AssertionError, OSError, ValueError) as error:
            call.end("cut", f"{type(error).__name__}: {str(error)[:200]}")
            return False

    def _hear(self, call: Call, seconds: float) -> None:
        until = time.monotonic() + seconds
        while call.fate == "pending" and (left := until - time.monotonic()) > 0:
            said = self.process.receive_within(left)
            if said is not None and said.get("id") == call.tag:
                note(call, said, 0)
        if call.fate == "pending" and seconds == PATIENCE:
            call.end("silent", f"nothing for {seconds:g} s")

    def _end(self, errand: Errand, call: Call) -> bool:
        if call.fate != "pending":
            return True
        if errand.ending == "word":
            params: dict[str, Any] = {"requestId": errand.tag, "reason": "chaos"}
            self.process.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            call.end("left", "notifications/cancelled")
            return True
        if errand.ending == "rst":
            self.process.signal(signal.SIGKILL)
        elif errand.ending == "half":
            self.process.signal(signal.SIGTERM)
        else:
            self.process.close()
        call.end("left", errand.ending)
        return False

    def close(self) -> str:
        """End the process. Returns a message if it did not end in time, and otherwise an empty string."""
        with suppress(OSError):
            self.process.close()
        try:
            self.process.wait()
        except subprocess.TimeoutExpired:
            return f"mcp stdio (process {self.process.pid}) does not end in {PATIENCE:g} s after its client left"
        return ""
