"""The site's one page: what this site is, what it offers, how a client connects."""

import re

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from mcp_app.auth import anonymous
from mcp_app.auth.principal import ANONYMOUS
from mcp_app.catalogue import catalogue
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.conf import DEFAULT_ENDPOINT, settings
from mcp_app.management.welcome import client_configuration

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """The page at `/`. Tools are listed for whoever may call one: everybody, or who has signed in."""
    endpoint = request.build_absolute_uri("/mcp")
    lists_tools = anonymous.is_allowed(DEFAULT_ENDPOINT) or request.user.is_authenticated
    context = {
        "title": settings.SERVER_TITLE,
        "endpoint": endpoint,
        "clients": _by_client(client_configuration(DEFAULT_ENDPOINT, endpoint)),
        "lists_tools": lists_tools,
        "tools": _described(catalogue.offered(ANONYMOUS)) if lists_tools else [],
    }
    response = render(request, "mcpsite/home.html", context)
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    return response


def _by_client(configuration: str) -> list[dict[str, str]]:
    """What to paste for each client, and into which file: the columns of the lines that `mcp serve` prints."""
    columns = (re.split(" {2,}", line) for line in configuration.splitlines())
    return [{"name": name, "file": "".join(file), "text": text} for name, *file, text in columns]


def _described(tools: list[OfferedTool]) -> list[tuple[OfferedTool, list[str]]]:
    """Each tool with the paragraphs of its description."""
    return [(tool, tool.description.split("\n\n")) for tool in tools]
