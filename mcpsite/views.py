"""The site's page, with its tools and the configuration of clients."""

import re

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from mcp_app.auth import authentication
from mcp_app.auth.principal import ANONYMOUS
from mcp_app.catalogue import catalogue
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.conf import DEFAULT_ENDPOINT, settings
from mcp_app.management.serving.welcome import client_configuration

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


FAVICON = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">
<rect width="16" height="16" rx="3" fill="#44546a"/>
<path d="M3 12V4l5 5 5-5v8" fill="none" stroke="#fff" stroke-width="2"/>
</svg>
"""


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """Return the icon that browsers request with every page, also in the admin."""
    return HttpResponse(FAVICON, content_type="image/svg+xml", headers={"Cache-Control": "public, max-age=86400"})


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Return the page at `/`. It lists the tools that the visitor may call."""
    endpoint = request.build_absolute_uri("/mcp")
    lists_tools = authentication.allows_anonymous(DEFAULT_ENDPOINT) or request.user.is_authenticated
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
    """Return the configuration for each client, from the lines that `mcp serve` prints."""
    columns = (re.split(" {2,}", line) for line in configuration.splitlines())
    return [{"name": name, "file": "".join(file), "text": text} for name, *file, text in columns]


def _described(tools: list[OfferedTool]) -> list[tuple[OfferedTool, list[str]]]:
    """Return each tool with the paragraphs of its description."""
    return [(tool, tool.description.split("\n\n")) for tool in tools]
