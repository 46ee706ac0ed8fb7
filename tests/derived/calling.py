"""Calls published tools as a worker does.

The caller needs the rights, the arguments are checked, and a result is made.
"""

import re
from typing import Any

from django.contrib.auth.models import Permission, User

from mcp_app.auth.authentication import principal_of
from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.catalogue import availability, catalogue, results
from mcp_app.catalogue.arguments import bind
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.execution.tool.context import ToolContext
from mcp_app.models import Request


def user(name: str, *codenames: str, **fields: Any) -> User:
    made = User.objects.create_user(name, **fields)
    made.user_permissions.set(Permission.objects.filter(codename__in=codenames, content_type__app_label="shop"))
    return made


def principal(caller: User | None) -> Principal:
    return ANONYMOUS if caller is None else principal_of(caller)


def offered(caller: User | None) -> set[str]:
    return {tool.name for tool in catalogue.offered(principal(caller))}


def schemas(name: str, caller: User) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a tool's input and output schema as its caller sees them."""
    found = catalogue.find(name, principal(caller))
    assert found is not None
    wire = found.wire()
    return wire["inputSchema"], wire.get("outputSchema", {})


def call(name: str, caller: User | None, /, scopes: list[str] | None = None, **arguments: Any) -> Any:
    """Return the structured result, or the text of an error."""
    asker = principal(caller)
    found = catalogue.find(name, asker)
    assert found is not None, f"{name} is unknown to {caller}"
    tool = found.registered
    context = ToolContext(Request(tool=name, user_id=asker.user_id, scopes=scopes), None, None)  # type: ignore[arg-type]  # not used
    try:
        bound = bind(tool, arguments)
        value = availability.run(tool.function, **bound, **{str(tool.signature.context_parameter): context})
        result = results.to_result(tool, value)
        return result["structuredContent"] if "structuredContent" in result else result["content"][0]["text"]
    except InvalidArguments as error:
        return str(error)
    except Exception as error:
        return results.failure_result(error)["content"][0]["text"]


def is_not_found(told: Any, model: str, key: object) -> bool:
    """Return whether a call's text says that there is no row of `model` with this key."""
    return re.search(rf"\bno {model}\b.* {key}\b", told) is not None
