"""What `mcp serve` tells whoever started it: addresses, client configuration to paste, a first call. Text only."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings

from mcp_app.conf import settings
from mcp_app.protocol.revisions import MODERN

_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "curl", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def addresses(endpoint: str, admin: str | None, password: str | None) -> str:
    """The endpoint and the admin's address, with the password that is shown this once."""
    lines = [f"MCP endpoint   {endpoint}"]
    if admin is not None:
        lines.append(f"Admin          {admin}")
    if password is not None:
        lines.append(f"               user admin, password {password} (made now, shown only once)")
    return "\n".join(lines)


def client_configuration(endpoint: str) -> str:
    """Ready-to-paste configuration of the usual clients, and a first call with curl."""
    name = settings.SERVER_NAME
    return "\n".join(
        [
            f"Claude Code    claude mcp add --transport http {name} {endpoint}",
            f"VS Code        .vscode/mcp.json   {_json({'servers': {name: {'type': 'http', 'url': endpoint}}})}",
            f"Cursor         .cursor/mcp.json   {_json({'mcpServers': {name: {'url': endpoint}}})}",
            f"curl           {curl(endpoint, 'tools/list')}",
        ]
    )


def stdio_configuration() -> str:
    """For clients that start a server of their own. It names paths of this machine: for its terminal only."""
    program = str(Path(sys.argv[0]).resolve())
    command = [sys.executable, program, "mcp", "stdio", f"--settings={django_settings.SETTINGS_MODULE}"]
    return f"stdio          claude mcp add {settings.SERVER_NAME} -- {shlex.join(command)}"


def curl(endpoint: str, method: str, params: Mapping[str, Any] | None = None) -> str:
    """One line for a shell that makes one call, with every header that the protocol asks for."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": _META}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
    }
    if params and "name" in params:
        headers["Mcp-Name"] = str(params["name"])
    shown = " ".join(f"-H '{name}: {value}'" for name, value in headers.items())
    return f"curl -sS -N {endpoint} {shown} -d {_quoted(_json(body))}"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
