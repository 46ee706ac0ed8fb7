"""What is said of changes of whole lists, by the subjects of those.

The same for everybody who listens to the same lists, so that a server process has each once (`Server.once`).
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from mcp_app.catalogue import audiences
from mcp_app.protocol import notifications
from mcp_app.protocol.errors import RequestId

Notices = Mapping[str, Callable[[RequestId], dict[str, Any]]]
"""What to say of a change to a subscription, by the subject that changed."""


def list_notices(kinds: tuple[str, ...]) -> Notices:
    """Of the lists of these kinds."""
    said = {kind: partial(notifications.list_changed, kind) for kind in kinds}
    return MappingProxyType({subject: said[kind] for kind in kinds for subject in audiences.subjects(kind)})
