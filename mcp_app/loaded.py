"""What a process has loaded by the time it begins to serve: no garbage, and not to be looked through for any again.

A full collection looks through all that Django and a site's apps have loaded, 150,000 objects and more, and takes
100 ms or 200, at a moment of its own choice. Meanwhile nobody is heard to leave and no tool is told to stop.
Where many calls wait in one process they are as many objects again, and those that come and go would have them looked
through every second; and each call by itself makes enough for a collection or two of what is new. So all collections
are rarer. Refuses to switch any off: what is made is collected.
"""

import gc
from functools import cache
from typing import Final

YOUNG_AFTER: Final = 5000
"""Objects after which what is new is looked through for garbage; Python's own number is 700. A full collection comes
after a hundred times as many, as it does there."""


@cache
def keep() -> None:
    """Once in a process and those that it forks: collect what is garbage, set aside all the rest, look more rarely."""
    gc.collect()
    gc.freeze()
    look_more_rarely()


def look_more_rarely() -> None:
    """But where the site has collections more rarely still, or none."""
    youngest, *older = gc.get_threshold()
    if youngest:
        gc.set_threshold(max(youngest, YOUNG_AFTER), *older)
