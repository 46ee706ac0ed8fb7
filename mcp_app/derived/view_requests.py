"""Requests for the site's own classes that expect a request, such as viewsets and ModelAdmins.

They run in the worker, where no HTTP request exists. Django's middleware does not run.
"""

from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.handlers.wsgi import WSGIRequest

from mcp_app.conf import settings
from mcp_app.tools import ToolContext


def make_request(method: str, context: ToolContext, *, query: str = "", content: bytes = b"", content_type: str) -> Any:
    """Make the request for a call: to the site's own address, from the client's."""
    scheme, host = _place()
    return WSGIRequest(
        {
            "REQUEST_METHOD": method.upper(),
            "PATH_INFO": "/",
            "QUERY_STRING": query,
            "SERVER_NAME": host,
            "SERVER_PORT": "443" if scheme == "https" else "80",
            "HTTP_HOST": host,
            "HTTP_ACCEPT": "application/json",
            "CONTENT_TYPE": content_type,
            "CONTENT_LENGTH": str(len(content)),
            "REMOTE_ADDR": context.request.remote_address,
            "wsgi.url_scheme": scheme,
            "wsgi.input": BytesIO(content),
        }
    )


def _place() -> tuple[str, str]:
    """Return scheme and host of the site, for the links that its classes make."""
    if settings.PUBLIC_URL is not None:
        parts = urlsplit(settings.PUBLIC_URL)
        return parts.scheme, parts.netloc
    hosts = [host for host in django_settings.ALLOWED_HOSTS if "*" not in host]
    return "https", hosts[0].removeprefix(".") if hosts else "localhost"
