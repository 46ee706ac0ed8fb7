"""One call of a viewset's action: a request as DRF would be given it, and its response as a tool's result.

Everything that DRF does is done by it: permissions, throttles, filters, pages, serializers, handling exceptions. Who
asks is the call's caller, whatever the viewset authenticates by. No middleware of Django's runs.
"""

import json
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from django.conf import settings as django_settings
from django.core.handlers.wsgi import WSGIRequest
from django.utils.translation import gettext as _
from rest_framework.authentication import BaseAuthentication
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.settings import api_settings

from mcp_app.catalogue.errors import ToolError
from mcp_app.conf import settings
from mcp_app.derived import arguments
from mcp_app.tools import ToolContext

DONE: Final = "Done."


class CallAuthentication(BaseAuthentication):  # type: ignore[misc]  # DRF ships no types
    """The user of the call; there is none of an anonymous one."""

    def authenticate(self, request: Any) -> tuple[Any, None] | None:
        user = request._request.caller
        return None if user is None else (user, None)


OURS: Final = {
    "authentication_classes": [CallAuthentication],
    "parser_classes": [JSONParser],
    "renderer_classes": [JSONRenderer],
}
"""What is not the viewset's to say: who asks, and that both sides speak JSON."""


def request_for(method: str, context: ToolContext, query: Mapping[str, Any], body: Mapping[str, Any]) -> WSGIRequest:
    """The request of a call."""
    content = json.dumps(body).encode()
    scheme, host = _place()
    request = WSGIRequest(
        {
            "REQUEST_METHOD": method.upper(),
            "PATH_INFO": "/",
            "QUERY_STRING": urlencode({name: _text(value) for name, value in query.items()}, doseq=True),
            "SERVER_NAME": host,
            "SERVER_PORT": "443" if scheme == "https" else "80",
            "HTTP_HOST": host,
            "HTTP_ACCEPT": "application/json",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(content)),
            "REMOTE_ADDR": context.request.remote_address,
            "wsgi.url_scheme": scheme,
            "wsgi.input": BytesIO(content),
        }
    )
    request.caller = context.user  # type: ignore[attr-defined]  # for CallAuthentication
    return request


def result_of(response: Any) -> Any:
    """What the tool returns. Raises `InvalidArguments` or `ToolError` where the viewset refused."""
    data = _data_of(response)
    if response.status_code == 400:
        raise arguments.unfit(list(dict.fromkeys(lines_of(data))) or [DONE])
    if response.status_code >= 400:
        raise ToolError(" ".join(lines_of(data)) or str(response.reason_phrase))
    return DONE if data is None else data


def _data_of(response: Any) -> Any:
    """What a response says: DRF's, or one of Django's that an action made itself."""
    if isinstance(response, Response):
        response.render()
        return json.loads(response.rendered_content) if response.data is not None else None
    if response.streaming:
        if (file := getattr(response, "file_to_stream", None)) is not None:
            file.close()  # not the response: that would end a request, and with it database connections
        raise ToolError(_("This answers with a file, which no tool returns."))
    is_json = response.headers.get("Content-Type", "").partition(";")[0] == "application/json"
    return json.loads(response.content) if is_json else response.text or None


def lines_of(data: Any, path: str = "") -> Iterator[str]:
    """What is wrong, by field, out of DRF's nested errors."""
    if isinstance(data, dict):
        for name, value in data.items():
            own = name in (api_settings.NON_FIELD_ERRORS_KEY, "detail")
            step = f"[{name}]" if isinstance(name, int) else f".{name}"  # an item of a list is numbered
            yield from lines_of(value, path if own else f"{path}{step}".removeprefix("."))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from lines_of(value, f"{path}[{index}]" if isinstance(value, dict | list) else path)
    elif data is not None:
        yield f"{path}: {data}" if path else str(data)


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _place() -> tuple[str, str]:
    """Where the site is, for the links that serializers make."""
    if settings.PUBLIC_URL is not None:
        parts = urlsplit(settings.PUBLIC_URL)
        return parts.scheme, parts.netloc
    hosts = [host for host in django_settings.ALLOWED_HOSTS if "*" not in host]
    return "https", hosts[0].removeprefix(".") if hosts else "localhost"
