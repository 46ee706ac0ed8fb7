"""Changes of what is offered, told to whoever listens: a version for each subject, bumped in the change's transaction.

A change that is rolled back notifies nobody, and one of any process is told by all. Where the change is made in another
database than this app's rows (`MCP["DATABASE"]`), its version is bumped right after its commit: what is rolled back
still notifies nobody, but a process that dies between the two commits leaves the change untold.
"""

from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from typing import Final

from django.db import DEFAULT_DB_ALIAS, transaction

from mcp_app import databases
from mcp_app.catalogue import audiences
from mcp_app.conf import settings
from mcp_app.lifecycle import wakeups
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import ChangeVersion
from mcp_app.protocol.uris import is_uri

TOOLS: Final = audiences.TOOLS
RESOURCES: Final = audiences.RESOURCES
PROMPTS: Final = audiences.PROMPTS


def resource_subject(uri: str) -> str:
    """The subject of one resource: of bounded length, however long its URI."""
    return f"resource:{sha256(uri.encode()).hexdigest()}"


@transactional
def touch(*subjects: str) -> None:
    """Bump versions, always in the same order: whoever listens looks again once this is committed."""
    for subject in sorted(set(subjects)):
        ChangeVersion.bump(subject)
    databases.on_commit(wakeups.wake_servers)


def notify_resource_updated(*uris: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """Say, in the transaction that changes it, that what is read at a URI has changed.

    `using` is the database of the change. Of changes that come together listeners are told once. Call it last, and once
    for all: where the change shares this app's database, others that change the same resource wait for its commit.

    Raises ValueError for what is no URI.
    """
    for uri in uris:
        if not is_uri(uri):
            raise ValueError(f"{uri!r} is no URI")
    _tell(map(resource_subject, uris), using)


def notify_resources_list_changed(*declared: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """Say, in the transaction that changes it, that the list of resources or of templates has changed for somebody.

    `declared`: of what, by URI or template as its decorator has it. Told is who may have one of these; where nothing is
    named, who may have anything of the list.
    """
    _tell(audiences.subjects_of(RESOURCES, declared), using)


def notify_prompts_list_changed(*names: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """The same of the list of prompts."""
    _tell(audiences.subjects_of(PROMPTS, names), using)


def _tell(subjects: Iterable[str], using: str) -> None:
    if using == settings.DATABASE:
        touch(*subjects)
    else:
        # Robust: the change is committed, and its author's code is not to fail for the sake of the word of it.
        transaction.on_commit(partial(touch, *subjects), using=using, robust=True)
