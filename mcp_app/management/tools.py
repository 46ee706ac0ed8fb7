"""`mcp tools`: every tool of the site with its state, the code joined with the rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mcp_app.catalogue.registry import registered_tools
from mcp_app.conf import settings
from mcp_app.lifecycle.inert import inert_json
from mcp_app.models import Tool

NONE: str = "No tools. Decorate functions with @tool in an installed app's mcp_tools.py."

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Listed:
    """One tool. `registered`: whether this process has its code; `enabled` None: it has no row yet."""

    name: str
    registered: bool
    enabled: bool | None
    endpoints: tuple[str, ...]
    """Where its code offers it; none where the site has no endpoints by name."""

    @property
    def state(self) -> str:
        if not self.registered:
            return "code went away"
        if self.enabled is None:
            return "new: enabled at the next start"
        return "enabled" if self.enabled else "disabled"


def show(say: Say) -> None:
    """A line for each."""
    listed = list(_listed())
    width = max((len(each.name) for each in listed), default=0)
    for each in listed:
        at = f"  at {', '.join(each.endpoints)}" if each.endpoints else ""
        say(f"{each.name:<{width}}  {each.state}{at}")
    if not listed:
        say(NONE)


def write(say: Say) -> None:
    """The same for programs: a JSON array."""
    told = [
        {
            "name": each.name,
            "state": each.state,
            "enabled": each.enabled,
            "registered": each.registered,
            "endpoints": list(each.endpoints),
        }
        for each in _listed()
    ]
    say(inert_json(told, indent=2))


def _listed() -> Iterator[Listed]:
    rows = Tool.objects.in_bulk()
    for name in sorted(rows.keys() | registered_tools().keys()):
        tool, row = registered_tools().get(name), rows.get(name)
        endpoints = tuple(tool.access.endpoints) if tool is not None and settings.ENDPOINTS else ()
        yield Listed(name, tool is not None, None if row is None else row.enabled, endpoints)
