"""The path of a request below the mount of the application that serves it."""

from collections.abc import Mapping
from typing import Any


def local_path(scope: Mapping[str, Any]) -> str:
    """Without the root path. One that is not part of the path is ignored: Daphne takes one from the client."""
    path, root = str(scope["path"]), str(scope.get("root_path") or "").rstrip("/")
    return path.removeprefix(root) if path.startswith(root + "/") else path
