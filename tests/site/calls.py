"""Calls of the example site's tools with real rows and a real worker, stopped by each tool's own policy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_app.execution.stopping import processes
from tests.execution import driver
from tests.execution.site import Site, eventually


def make_staff() -> str:
    """Create a user who may call every tool, and return the key. Runs in the driver process."""
    from django.contrib.auth.models import User

    return str(User.objects.create_user("staff", is_staff=True).pk)


def submit(tool: str, arguments: dict[str, Any], user_id: str, **changes: Any) -> str:
    """Submit a call with the tool's own policy and grace periods, and return its id. Runs in the driver process."""
    from mcp_app.auth.principal import ANONYMOUS, Principal
    from mcp_app.catalogue import catalogue

    principal = Principal("test", user_id, "test", "test", user_id) if user_id else ANONYMOUS
    offered = catalogue.find(tool, principal)
    assert offered is not None, f"{tool} is not offered"
    stop = {name: getattr(offered, name) for name in ("cancel_policy", "cooperative_grace", "hard_grace", "time_limit")}
    return driver.submit(tool, arguments, principal=principal, **{**stop, **changes})


@dataclass(frozen=True)
class ExampleSite:
    """The example site, with shortcuts for the tests of its tools."""

    site: Site
    staff: str
    """The key of the default caller. With an empty key a call is anonymous."""

    @property
    def projects(self) -> Path:
        return self.site.data / "projects"

    def begin(self, tool: str, user_id: str | None = None, **arguments: Any) -> str:
        """Submit a call, and return its id."""
        return str(self.site.ask(submit, tool, arguments, self.staff if user_id is None else user_id))

    def call(self, tool: str, user_id: str | None = None, **arguments: Any) -> dict[str, Any]:
        """Make a call, wait until it has ended, and return its row."""
        return self.site.ended(self.begin(tool, user_id, **arguments), within=45)

    def result(self, tool: str, **arguments: Any) -> Any:
        """Make a call that must complete, and return its structured result."""
        ended = self.call(tool, **arguments)
        assert ended["status"] == "completed", ended
        return ended["result"]["structuredContent"]

    def refusal(self, tool: str, user_id: str | None = None, **arguments: Any) -> str:
        """Make a call that must fail with a `ToolError`, and return the error's text."""
        ended = self.call(tool, user_id, **arguments)
        assert (ended["status"], ended["error"]["type"]) == ("failed", "ToolError"), ended
        return str(ended["result"]["content"][0]["text"])

    def progress(self, request_id: str) -> list[dict[str, Any]]:
        """Return the progress that is stored so far."""
        return [data for kind, data in self.site.ask(driver.events, request_id) if kind == "progress"]

    def await_progress(self, request_id: str) -> dict[str, Any]:
        """Wait for the first progress of a running call, and return it."""

        def first() -> dict[str, Any] | None:
            return next(iter(self.progress(request_id)), None)

        found: dict[str, Any] = eventually(first, f"progress ({self.site.ask(driver.row, request_id)})")
        return found

    def cancel(self, request_id: str) -> None:
        """Cancel a running call that does not stop yet, and wait until its tool has been notified."""
        assert self.site.cancel(request_id) == "accepted"

        def told() -> bool:
            return bool(self.site.ask(driver.row, request_id)["stage"] == "cooperative")

        eventually(told, "the word to the tool")

    def stop(self, request_id: str) -> dict[str, Any]:
        """Cancel a running call, wait until it and all processes that it started have ended, and return its row."""
        assert self.site.cancel(request_id) == "accepted"
        ended = self.site.ended(request_id, within=45)
        eventually(lambda: not processes.find(request_id), "the end of what was started")
        return ended
