"""Tools that are listed but never called, so that every server's list has the same size. Standard library only."""

from collections.abc import Callable

TOOLS = 20
"""The number of tools in each server's list."""

Filler = Callable[..., str]


def fillers(others: int) -> list[Filler]:
    """Return functions that fill the list up to `TOOLS`, if it has `others` other tools."""
    return [_filler(number) for number in range(TOOLS - others)]


def name(number: int) -> str:
    return f"find_entries_{number}"


def description(number: int) -> str:
    return f"Find the entries of section {number} that contain the query, the newest first."


def _filler(number: int) -> Filler:
    def find_entries(query: str, limit: int = 10, exact: bool = False) -> str:
        return f"{query} {limit} {exact}"

    find_entries.__name__ = find_entries.__qualname__ = name(number)
    find_entries.__doc__ = description(number)
    return find_entries
