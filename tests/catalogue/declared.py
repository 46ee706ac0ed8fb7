"""Tools whose annotations are text, as `from __future__ import annotations` leaves them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from mcp_app.catalogue.schema.signature import Context


class ToolContext(Context):
    """Replaces the context class of `execution`."""


class Usages(BaseModel):
    symbol: str
    lines: list[int] = []


def find_usages(
    symbol: Annotated[str, Field(description="what to look for", min_length=1)],
    limit: int = 10,
    context: ToolContext | None = None,
) -> Usages:
    """Find where a symbol is used.

    Looks in every package.

    Args:
        symbol: described by its Field
    """
    return Usages(symbol=symbol, lines=[limit])
