"""Of which changes a caller is told: asked when they are to be told, because what somebody may have comes and goes.

Of lists it is asked once for all streams of a caller that are to be told at the same time; of resources authors' code
is, in their threads. Where that cannot say whether the caller may have what changed, nothing is told: the log has why.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import reading
from mcp_app.lifecycle import redaction
from mcp_app.transport.author_threads import EscapedError, TookTooLongError
from mcp_app.transport.server import Server

logger = logging.getLogger(__name__)


async def concerned(
    server: Server, principal: Principal, changed: Collection[Any], uris: Mapping[Any, str]
) -> set[Any]:
    """Those of the `changed` subjects, of lists or of the resources in `uris`, of which `principal` may be told.

    Raises django.db.Error.
    """
    resources = {subject: uris[subject] for subject in changed if subject in uris}
    lists = frozenset(subject for subject in changed if subject not in uris)
    told: set[Any] = set(await server.list_rights.get((principal, lists))) if lists else set()
    if resources:
        try:
            told |= await server.authors.run(_readable, resources, principal)
        except (TookTooLongError, EscapedError):
            logger.exception("who may have resources that changed was not said in time: nothing is told of them")
    return told


def _readable(resources: Mapping[Any, str], principal: Principal) -> set[Any]:
    return {subject for subject, uri in resources.items() if _is_readable(uri, principal)}


def _is_readable(uri: str, principal: Principal) -> bool:
    try:
        return reading.find(uri, principal) is not None
    except Exception as error:
        logger.error("who may have a resource that changed cannot be told", exc_info=redaction.wordless(error))
        return False
