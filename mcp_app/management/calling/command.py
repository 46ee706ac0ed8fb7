"""Checks the options of `mcp call` before anything is stored, and makes the call."""

import asyncio
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import arguments as schema
from mcp_app.catalogue import catalogue
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.management.calling import arguments
from mcp_app.management.calling.ending import INTERRUPTED
from mcp_app.management.calling.session import CallSession, SessionOptions
from mcp_app.management.serving import local_caller


class UsageError(Exception):
    """The call cannot be made. The message explains what to write instead."""


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of `mcp call`."""

    tool: str
    given: Sequence[str]
    """`NAME=VALUE` pairs."""
    whole: str | None
    """The arguments object as JSON."""
    username: str | None
    endpoint: str
    """Its name."""
    session_options: SessionOptions


def call(options: CallOptions, say: Callable[[str], object]) -> int:
    """Make the call, print its result, and return the exit status. Raises `UsageError` and `local_caller.NotReady`."""
    try:
        principal = local_caller.prepared(options.username, options.endpoint, say)
        try:
            given = _arguments(options, principal)
        finally:
            connections.close_all()
        return asyncio.run(CallSession(options.tool, given, principal, options.session_options).run())
    except KeyboardInterrupt:  # no call has been stored yet
        return INTERRUPTED


def _arguments(options: CallOptions, principal: Principal) -> dict[str, Any]:
    tool = catalogue.find(options.tool, principal)
    if tool is None:
        names = [each.name for each in catalogue.offered(principal)]
        alike = difflib.get_close_matches(options.tool, names, n=3)
        hint = f"Did you mean {' or '.join(alike)}?" if alike else "`mcp tools` lists all tools of the site."
        raise UsageError(f"No tool {options.tool!r} is offered to {principal.label}. {hint}")
    try:
        given = arguments.read(options.given, options.whole, tool.registered.signature.input_schema)
        schema.bind(tool.registered, given)
    except (arguments.ArgumentError, InvalidArguments) as error:
        raise UsageError(str(error)) from error
    return given
