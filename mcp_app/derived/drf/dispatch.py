"""Calls an action of a viewset with a request for DRF, and makes a tool's result from its response.

DRF does the rest: permissions, throttles, filters, pagination, serializers and exceptions. The
viewset's own authentication is replaced: the user is the caller of the tool. Django's middleware
does not run.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from rest_framework.authentication import BaseAuthentication
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.settings import api_settings

from mcp_app.catalogue.errors import ToolError
from mcp_app.derived import arguments, view_requests
from mcp_app.tools import ToolContext

DONE: Final = "Done."


class CallAuthentication(BaseAuthentication):  # type: ignore[misc]  # DRF ships no types
    """Authenticates the caller of the tool; `None` for an anonymous one."""

    def authenticate(self, request: Any) -> tuple[Any, None] | None:
        user = request._request.caller
        return None if user is None else (user, None)


OURS: Final = {
    "authentication_classes": [CallAuthentication],
    "parser_classes": [JSONParser],
    "renderer_classes": [JSONRenderer],
}
"""Attributes that replace the viewset's own: authentication by the call, and JSON in both
directions."""


def request_for(method: str, context: ToolContext, query: Mapping[str, Any], body: Mapping[str, Any]) -> Any:
    """Make the request for a call."""
    request = view_requests.make_request(
        method,
        context,
        query=urlencode({name: _text(value) for name, value in query.items()}, doseq=True),
        content=json.dumps(body).encode(),
        content_type="application/json",
    )
    request.caller = context.user  # for CallAuthentication
    return request


def result_of(response: Any) -> Any:
    """Return the tool's result.

    Raises `InvalidArguments` for a 400 and `ToolError` for other errors.
    """
    data = _data_of(response)
    if response.status_code == 400:
        raise arguments.unfit(list(dict.fromkeys(lines_of(data))) or [DONE])
    if response.status_code >= 400:
        raise ToolError(" ".join(lines_of(data)) or str(response.reason_phrase))
    return DONE if data is None else data


def _data_of(response: Any) -> Any:
    """Return the data of a response of DRF, or of one of Django's that an action returned."""
    if isinstance(response, Response):
        response.render()
        return json.loads(response.rendered_content) if response.data is not None else None
    if response.streaming:
        if (file := getattr(response, "file_to_stream", None)) is not None:
            file.close()  # closing the response would end a request, and its database connections
        raise ToolError(_("This action returns a file, which a tool cannot return."))
    is_json = response.headers.get("Content-Type", "").partition(";")[0] == "application/json"
    return json.loads(response.content) if is_json else response.text or None


def lines_of(data: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each problem in DRF's nested errors, with the path to its field."""
    if isinstance(data, dict):
        for name, value in data.items():
            own = name in (api_settings.NON_FIELD_ERRORS_KEY, "detail")
            step = f"[{name}]" if isinstance(name, int) else f".{name}"  # errors of a list have numbers
            yield from lines_of(value, path if own else f"{path}{step}".removeprefix("."))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from lines_of(value, f"{path}[{index}]" if isinstance(value, dict | list) else path)
    elif data is not None:
        yield f"{path}: {data}" if path else str(data)


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
