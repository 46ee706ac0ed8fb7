"""Scopes: what a token was given for, and what that implies by `MCP["IMPLIED_SCOPES"]`."""

from collections.abc import Iterable

from mcp_app.conf import settings


def missing(needed: Iterable[str], given: frozenset[str] | None) -> list[str]:
    """What of `needed` a token was not given for, neither by name nor by a broader scope. `given` None: nothing, as no
    token limits its bearer.

    Source: 2026-07-28 basic/authorization "Step-Up Authorization Flow".
    """
    if given is None:
        return []
    held = with_implied(given)
    return [scope for scope in needed if scope not in held]


def with_implied(given: Iterable[str]) -> frozenset[str]:
    """Those, and the narrower ones of each."""
    held: set[str] = set()
    found = list(given)
    while found:
        scope = found.pop()
        if scope not in held:
            held.add(scope)
            found.extend(settings.IMPLIED_SCOPES.get(scope, ()))
    return frozenset(held)
