"""What a process has loaded by the time it begins to serve: no garbage, and not to be looked through for any again.

A full collection looks through all that Django and a site's apps have loaded, 150,000 objects and more, and takes
100 ms or 200, at a moment of its own choice. Meanwhile nobody is heard to leave and no tool is told to stop.
Refuses to switch collections off: what is made from then on is collected as ever.
"""

import gc
from functools import cache


@cache
def keep() -> None:
    """Once in a process and those that it forks: collect what is garbage, and set aside all the rest."""
    gc.collect()
    gc.freeze()
