"""The notifications on a call's own stream: progress and log lines, from the events of its request.

Refuses what the client did not ask for, progress that does not grow, and numbers that JSON has not.
Source: 2026-07-28 basic/patterns/progress, server/utilities/logging.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcp_app.lifecycle.events import finite
from mcp_app.protocol import notifications
from mcp_app.protocol.inbound import Route
from mcp_app.protocol.metadata import LOG_LEVELS
from mcp_app.states import EventKind
from mcp_app.transport import heartbeats


class CallNotifications:
    """What one call's client hears. Remembers the last progress sent."""

    def __init__(self, route: Route) -> None:
        metadata = route.metadata
        self._token = metadata.progress_token
        self._levels = frozenset(
            LOG_LEVELS[LOG_LEVELS.index(metadata.log_level) :] if metadata.log_level is not None else ()
        )
        self._sent: float | None = None
        self.wanted = route.accept.event_stream and (self._token is not None or bool(self._levels))
        self.wants_heartbeat = route.accept.event_stream and heartbeats.LEVEL in self._levels

    def messages(self, events: Iterable[tuple[EventKind, Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
        """The notifications to send for `events`, in order."""
        if not self.wanted:
            return
        for kind, data in events:
            if kind == EventKind.PROGRESS and (message := self._progress(data)) is not None:
                yield message
            if kind == EventKind.LOG and (message := self._log(data)) is not None:
                yield message

    def _progress(self, data: Mapping[str, Any]) -> dict[str, Any] | None:
        done = finite(data.get("progress"))
        if self._token is None or done is None or (self._sent is not None and done <= self._sent):
            return None
        self._sent = done
        return notifications.progress(
            self._token, _plain(done), _plain(finite(data.get("total"))), data.get("message") or None
        )

    def _log(self, data: Mapping[str, Any]) -> dict[str, Any] | None:
        if data.get("level") not in self._levels:
            return None
        return notifications.log_message(data["level"], data.get("data"), data.get("logger"))


def _plain(number: float | None) -> Any:
    """Whole numbers without a fraction: a client that counts to 3 reads 3, not 3.0."""
    return int(number) if number is not None and number.is_integer() else number
