"""`mcp tools`: lists every tool of the site with its state and its size in `tools/list`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mcp_app.catalogue import catalogue
from mcp_app.catalogue.registry import registered_tools
from mcp_app.conf import settings
from mcp_app.models import Tool
from mcp_app.protocol import jsonrpc
from mcp_app.safe_text import safe_json_text

NONE: str = "There are no tools. Decorate functions with @tool in an installed app's mcp_tools.py."

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool. `registered` is whether this process has its code; `enabled` is `None` if it has no row yet."""

    name: str
    registered: bool
    enabled: bool | None
    endpoints: tuple[str, ...]
    """The endpoints that offer it; empty if the site has no named endpoints."""
    size: int | None
    """Its size in `tools/list` in bytes, or `None` if it is not offered."""

    @property
    def state(self) -> str:
        if not self.registered:
            return "code is gone"
        if self.enabled is None:
            return "new: enabled at the next start"
        return "enabled" if self.enabled else "disabled"


def show(say: Say) -> None:
    """Print a line for each tool, and one for each list."""
    listed = list(_listed())
    width = max((len(each.name) for each in listed), default=0)
    for each in listed:
        at = f"  at {', '.join(each.endpoints)}" if each.endpoints else ""
        size = "" if each.size is None else f", {each.size:,} bytes"
        say(f"{each.name:<{width}}  {each.state}{size}{at}")
    if not listed:
        say(NONE)
    elif not settings.ENDPOINTS:
        say(_size_of_list(listed, "tools/list"))
    for endpoint in settings.ENDPOINTS:
        say(_size_of_list([each for each in listed if endpoint in each.endpoints], f"tools/list at {endpoint}"))


def write(say: Say) -> None:
    """Print a JSON array."""
    tools = [
        {
            "name": each.name,
            "state": each.state,
            "enabled": each.enabled,
            "registered": each.registered,
            "endpoints": list(each.endpoints),
            "bytes": each.size,
        }
        for each in _listed()
    ]
    say(safe_json_text(tools, indent=2))


def _listed() -> Iterator[ListedTool]:
    rows = Tool.objects.in_bulk()
    for name in sorted(rows.keys() | registered_tools().keys()):
        tool, row = registered_tools().get(name), rows.get(name)
        endpoints = tuple(tool.access.endpoints) if tool is not None and settings.ENDPOINTS else ()
        offered = None if tool is None else catalogue.offer(tool, row)
        size = None if offered is None else len(jsonrpc.encode(offered.wire()))
        yield ListedTool(name, tool is not None, None if row is None else row.enabled, endpoints, size)


def _size_of_list(listed: Sequence[ListedTool], name: str) -> str:
    sizes = [each.size for each in listed if each.size is not None]
    return f"{name}: {sum(sizes):,} bytes for all {len(sizes)} tools"
