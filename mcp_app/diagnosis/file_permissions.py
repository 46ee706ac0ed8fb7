"""Check whether other users of this machine may read or write a file or folder."""

import stat
from pathlib import Path
from typing import Final

READ: Final = stat.S_IROTH
WRITE: Final = stat.S_IWOTH


def others_may(permission: int, path: str) -> bool:
    """Return whether every user of this machine can reach `path` and has `permission` there."""
    place = Path(path).resolve()
    try:
        is_open = bool(place.stat().st_mode & permission)
        return is_open and all(folder.stat().st_mode & stat.S_IXOTH for folder in place.parents)
    except OSError:  # does not exist yet, or is in a folder that this user cannot enter
        return False
