import time

from mcp_app.tools import tool


@tool
def read_pages(seconds: float) -> str:
    """Read scanned pages for longer than the limit of the archive's own tasks."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.05)
    return "read"
