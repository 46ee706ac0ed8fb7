"""The messages of `mcp serve`: addresses, client configurations to paste, and a first call."""

import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from django.conf import settings as django_settings

from mcp_app.auth import authentication, tokens
from mcp_app.conf import server_name, settings
from mcp_app.protocol.revisions import MODERN

_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "curl", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def addresses(endpoints: Mapping[str, str], admin: str | None, password: str | None) -> str:
    """Return the addresses of the endpoints and of the admin, with the new password."""
    several = len(endpoints) > 1
    lines = [f"MCP endpoint   {url}{f'  {endpoint}' if several else ''}" for endpoint, url in endpoints.items()]
    if admin is not None:
        lines.append(f"Admin          {admin}")
    if password is not None:
        lines.append(f"               user admin, password {password} (new, shown only once)")
    return "\n".join(lines)


def tokens_of(endpoints: Iterable[str], token: str | None) -> str:
    """Return the new token, or the command that creates one; empty if no endpoint accepts tokens."""
    taking = [endpoint for endpoint in endpoints if _takes_tokens(endpoint)]
    if not taking:
        return ""
    if token is None:
        return "Token          `python manage.py mcp token create USERNAME --name NAME` creates one for a client"
    lines = [f"Token          {token}", "               of the user admin (new, shown only once)"]
    if any(map(authentication.allows_anonymous, taking)):
        lines.append("               clients on this machine without a token are anonymous")
    return "\n".join(lines)


def client_configuration(endpoint: str, url: str, token: str | None = None) -> str:
    """Return configurations of common clients for one endpoint, and a first call with curl.

    They contain `token` if the endpoint accepts it. A placeholder is used if a token is needed and there is none.
    """
    name = _name(endpoint)
    if not _takes_tokens(endpoint):
        token = None
    elif token is None and not authentication.allows_anonymous(endpoint):
        token = "TOKEN"  # noqa: S105 - to be replaced by the reader
    credential = {} if token is None else {"Authorization": f"Bearer {token}"}
    option = "".join(f' --header "{field}: {value}"' for field, value in credential.items())
    server = {"url": url, **({"headers": credential} if credential else {})}
    return "\n".join(
        [
            f"Claude Code    claude mcp add --transport http {name} {url}{option}",
            f"VS Code        .vscode/mcp.json   {_json({'servers': {name: {'type': 'http', **server}}})}",
            f"Cursor         .cursor/mcp.json   {_json({'mcpServers': {name: server}})}",
            f"curl           {curl(url, 'tools/list', credential=credential)}",
        ]
    )


def stdio_configuration(endpoint: str) -> str:
    """Return the configuration of clients that start a server themselves. It contains paths of this machine."""
    program = str(Path(sys.argv[0]).resolve())
    command = [sys.executable, program, "mcp", "stdio", f"--settings={django_settings.SETTINGS_MODULE}"]
    if settings.ENDPOINTS:
        command.append(f"--endpoint={endpoint}")
    return f"stdio          claude mcp add {_name(endpoint)} -- {shlex.join(command)}"


def _takes_tokens(endpoint: str) -> bool:
    return bool(settings.at(endpoint).AUTHENTICATOR == tokens.AUTHENTICATOR)


def _name(endpoint: str) -> str:
    """Return the name of the server in client configurations, which differs by endpoint."""
    name = server_name(endpoint)
    shared = sum(name == server_name(each) for each in settings.endpoints) > 1
    return f"{name}-{endpoint}" if shared else name


def curl(
    endpoint: str,
    method: str,
    params: Mapping[str, Any] | None = None,
    *,
    credential: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return a shell command that makes a call, with all headers that the protocol requires."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": _META}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
        **credential,
    }
    if params and "name" in params:
        headers["Mcp-Name"] = str(params["name"])
    shown = " ".join(f"-H '{name}: {value}'" for name, value in headers.items())
    return f"curl -sS -N {endpoint} {shown} -d {_quoted(_json(body))}"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
