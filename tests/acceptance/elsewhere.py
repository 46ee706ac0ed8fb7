"""Make a process of a site act as if it ran on another host: its wake-up datagrams reach only its own children.

Only the channel layer then carries a wake-up from this process to the servers.
"""

from django.apps import AppConfig


class Elsewhere(AppConfig):
    name = "tests.acceptance"
    label = "elsewhere"

    def ready(self) -> None:
        from mcp_app.lifecycle.liveness import wakeups

        wakeups.address = _address


def _address(name: str) -> str:
    return f"\0mcp_app/elsewhere/{name}"
