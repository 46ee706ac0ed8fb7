"""A call as it was asked for: whose it is and of what, found out and checked before anything is stored."""

import asyncio
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import catalogue, schema
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.management import local_caller
from mcp_app.management.calling import arguments
from mcp_app.management.calling.ending import INTERRUPTED
from mcp_app.management.calling.session import Session, Wishes


class UsageError(Exception):
    """The call cannot be made; the text says what to write instead."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `mcp call` was asked for."""

    tool: str
    given: Sequence[str]
    """`NAME=VALUE` each."""
    whole: str | None
    """The arguments object as JSON."""
    username: str | None
    endpoint: str
    """Its name."""
    wishes: Wishes


def call(options: Options, say: Callable[[str], object]) -> int:
    """Make the call and tell what comes of it; the exit status. Raises UsageError, `local_caller.NotReady`."""
    try:
        principal = local_caller.prepared(options.username, options.endpoint, say)
        try:
            given = _arguments(options, principal)
        finally:
            connections.close_all()
        return asyncio.run(Session(options.tool, given, principal, options.wishes).run())
    except KeyboardInterrupt:  # before there was anything to cancel
        return INTERRUPTED


def _arguments(options: Options, principal: Principal) -> dict[str, Any]:
    tool = catalogue.find(options.tool, principal)
    if tool is None:
        names = [each.name for each in catalogue.offered(principal)]
        alike = difflib.get_close_matches(options.tool, names, n=3)
        hint = f"Did you mean {' or '.join(alike)}?" if alike else "`mcp tools` lists all of the site's."
        raise UsageError(f"{principal.label} is offered no tool {options.tool!r}. {hint}")
    try:
        given = arguments.read(options.given, options.whole, tool.registered.signature.input_schema)
        schema.bind(tool.registered, given)
    except (arguments.ArgumentError, InvalidArguments) as error:
        raise UsageError(str(error)) from error
    return given
