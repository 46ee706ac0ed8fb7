"""Changes of what is offered, told to whoever listens: a version for each subject, bumped in the change's transaction.

A change that is rolled back notifies nobody, and one of any process is told by all. Where the change is made in another
database than this app's rows (`MCP["DATABASE"]`), its version is bumped right after its commit: what is rolled back
still notifies nobody, but a process that dies between the two commits leaves the change untold.
"""

from functools import partial
from hashlib import sha256
from typing import Final

from django.db import DEFAULT_DB_ALIAS, transaction

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle import wakeups
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import TOOL_LIST, ChangeVersion
from mcp_app.protocol.uris import is_uri

TOOLS: Final = TOOL_LIST
RESOURCES: Final = "resources"
PROMPTS: Final = "prompts"


def resource_subject(uri: str) -> str:
    """The subject of one resource: of bounded length, however long its URI."""
    return f"resource:{sha256(uri.encode()).hexdigest()}"


@transactional
def touch(subject: str) -> None:
    """Bump a version: whoever listens looks again once this is committed."""
    ChangeVersion.bump(subject)
    databases.on_commit(wakeups.wake_servers)


def notify_resource_updated(uri: str, *, using: str = DEFAULT_DB_ALIAS) -> None:
    """Say, in the transaction that changes it, that what is read at `uri` has changed.

    `using` is the database of the change. Of several changes that come together listeners are told once. Call it last:
    where the change shares this app's database, others that change the same resource wait until this one is committed.

    Raises ValueError where `uri` is no URI.
    """
    if not is_uri(uri):
        raise ValueError(f"{uri!r} is no URI")
    _tell(resource_subject(uri), using)


def notify_resources_list_changed(*, using: str = DEFAULT_DB_ALIAS) -> None:
    """Say, in the transaction that changes it, that the list of resources or of templates has changed for somebody."""
    _tell(RESOURCES, using)


def notify_prompts_list_changed(*, using: str = DEFAULT_DB_ALIAS) -> None:
    """The same of the list of prompts."""
    _tell(PROMPTS, using)


def _tell(subject: str, using: str) -> None:
    if using == settings.DATABASE:
        touch(subject)
    else:
        # Robust: the change is committed, and its author's code is not to fail for the sake of the word of it.
        transaction.on_commit(partial(touch, subject), using=using, robust=True)
