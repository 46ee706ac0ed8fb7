"""The fixture site with three endpoints, so that lists also have a filter by endpoint."""

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import MCP

DEFAULT, STAFF, PARTNERS = "default", "staff", "partners"
MCP = {**MCP, "ENDPOINTS": {name: {"PATH": f"/{name}"} for name in (DEFAULT, STAFF, PARTNERS)}}
