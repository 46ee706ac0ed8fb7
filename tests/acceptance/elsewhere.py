"""A process of a site as on another host, as far as datagrams go: they reach its own children, and nobody else.

Only the channel layer then carries a wake-up from it to the servers.
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
