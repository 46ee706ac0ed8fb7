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


def addresses(endpoints: Mapping[str, str], admin: str | None, password: str | None) -> str:
    """The endpoints' addresses, by name, and the admin's, with the password that is shown this once."""
    several = len(endpoints) > 1
    lines = [f"MCP endpoint   {url}{f'  {endpoint}' if several else ''}" for endpoint, url in endpoints.items()]
    if admin is not None:
        lines.append(f"Admin          {admin}")
    if password is not None:
        lines.append(f"               user admin, password {password} (made now, shown only once)")
    return "\n".join(lines)


def client_configuration(endpoint: str, url: str) -> str:
    """Ready-to-paste configuration of the usual clients for one endpoint, and a first call with curl."""
    name = _name(endpoint)
    return "\n".join(
        [
            f"Claude Code    claude mcp add --transport http {name} {url}",
            f"VS Code        .vscode/mcp.json   {_json({'servers': {name: {'type': 'http', 'url': url}}})}",
            f"Cursor         .cursor/mcp.json   {_json({'mcpServers': {name: {'url': url}}})}",
            f"curl           {curl(url, 'tools/list')}",
        ]
    )


def stdio_configuration(endpoint: str) -> str:
    """For clients that start a server of their own. It names paths of this machine: for its terminal only."""
    program = str(Path(sys.argv[0]).resolve())
    command = [sys.executable, program, "mcp", "stdio", f"--settings={django_settings.SETTINGS_MODULE}"]
    if settings.ENDPOINTS:
        command.append(f"--endpoint={endpoint}")
    return f"stdio          claude mcp add {_name(endpoint)} -- {shlex.join(command)}"


def _name(endpoint: str) -> str:
    """What a client is to call the server: another name for each endpoint."""
    name = settings.at(endpoint).SERVER_NAME
    shared = sum(name == settings.at(each).SERVER_NAME for each in settings.endpoints) > 1
    return f"{name}-{endpoint}" if shared else str(name)


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
