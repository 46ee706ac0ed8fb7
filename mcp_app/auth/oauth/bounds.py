"""How long what an authorization server said may be good for, whatever the settings say. Known without its packages."""

from typing import Final

MAX_CACHE_SECONDS: Final = 60.0
"""Of an answer about a token: for so long one that was revoked still opens."""
