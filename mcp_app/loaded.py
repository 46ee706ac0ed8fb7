"""What a process has loaded by the time it begins to serve: no garbage, and not to be looked through for any again.

A full collection looks through all that Django and a site's apps have loaded, 150,000 objects and more, and takes
100 ms or 200, at a moment of its own choice. Meanwhile nobody is heard to leave and no tool is told to stop.
Where many calls wait in one process they are as many objects again, and those that come and go would have them looked
through every second: full collections are rarer there. Refuses to switch any off: what is made is collected.
"""

import gc
from functools import cache
from typing import Final

FULL_AFTER: Final = 50
"""Collections of the middle generation after which a full one may come; Python's own number is 10."""


@cache
def keep() -> None:
    """Once in a process and those that it forks: collect what is garbage, and set aside all the rest."""
    gc.collect()
    gc.freeze()


def look_through_rarely() -> None:
    """In a process in which many wait at once: have full collections come after more that is new than before."""
    youngest, middle, oldest = gc.get_threshold()
    gc.set_threshold(youngest, middle, max(oldest, FULL_AFTER))
