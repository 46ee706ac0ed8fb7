"""Garbage collection in the processes of `mcp serve` and `mcp worker`.

A full collection visits all objects that Django and the site's apps have loaded, 150,000 and more. It takes 100 to
200 ms, in which no disconnect is noticed and no tool is stopped. So the objects that exist when the process starts to
serve are frozen, and younger objects are collected less often.
"""

import gc
from typing import Final

YOUNG_AFTER: Final = 5000
"""The number of new objects after which the youngest generation is collected. Python's default is 700."""


def tune() -> None:
    """Collect garbage, freeze the remaining objects, and collect less often from now on.

    A worker calls this before its pool is forked, because a collection in a child would copy the pages that it visits.
    """
    gc.collect()
    gc.freeze()
    collect_more_rarely()


def collect_more_rarely() -> None:
    """Raise the threshold of the youngest generation, unless the site has chosen a higher one or none."""
    youngest, *older = gc.get_threshold()
    if youngest:
        gc.set_threshold(max(youngest, YOUNG_AFTER), *older)
