"""Change notifications for lists and resources, by a version number for each subject.

The version is bumped in the transaction of the change. So a change that is rolled back notifies no
client, and a change in one process reaches the listeners of all processes.

If the change is made in another database than `MCP["DATABASE"]`, the version is bumped right after
the commit. A rollback still notifies no client, but if the process dies between the two commits,
the notification is lost.
"""

from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from typing import Final

from django.db import DEFAULT_DB_ALIAS, transaction

from mcp_app import databases
from mcp_app.catalogue import audiences
from mcp_app.conf import settings
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.models import ChangeVersion
from mcp_app.protocol.formats import is_uri

TOOLS: Final = audiences.TOOLS
RESOURCES: Final = audiences.RESOURCES
PROMPTS: Final = audiences.PROMPTS


def resource_subject(uri: str) -> str:
    """Return the subject of one resource: a hash, because URIs may be long."""
    return f"resource:{sha256(uri.encode()).hexdigest()}"


@transactional
def touch(*subjects: str) -> None:
    """Bump versions, in a fixed order to avoid deadlocks. Listeners are woken after the commit."""
    for subject in sorted(set(subjects)):
        ChangeVersion.bump(subject)
    databases.on_commit(wakeups.wake_servers)


def notify_resource_updated(*uris: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """Notify subscribers that the resources at these URIs have changed.

    Example::

        with transaction.atomic():
            note.save()
            notify_resource_updated(f"notes://{note.day}")

    Call it in the transaction that makes the change. `using` (str) is the alias of its database.
    Several changes in quick succession cause one notification. Call it last, and once for all URIs:
    in this app's database, other transactions that change the same resource wait for the commit.

    Raises `ValueError` for a text that is not a URI. Source: 2026-07-28 server/resources.
    """
    for uri in uris:
        if not is_uri(uri):
            raise ValueError(f"{uri!r} is not a URI")
    _tell(map(resource_subject, uris), using)


def notify_resources_list_changed(*declared: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """Notify clients that the list of resources or templates has changed for some callers.

    Call it in the transaction that makes the change, whose database alias is `using`.

    - `declared`: the URIs or templates that changed, as in their decorators. Callers with access to
      one of them are notified. If it is empty, or this process has no such declaration, all callers
      with access to any resource are notified.

    Source: 2026-07-28 server/resources.
    """
    _tell(audiences.subjects_of(RESOURCES, declared), using)


def notify_prompts_list_changed(*names: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """Notify clients that the list of prompts has changed for some callers.

    - `names`: the prompts that changed. Otherwise as `notify_resources_list_changed`.

    Source: 2026-07-28 server/prompts.
    """
    _tell(audiences.subjects_of(PROMPTS, names), using)


def _tell(subjects: Iterable[str], using: str) -> None:
    if using == settings.DATABASE:
        touch(*subjects)
    else:
        # Robust, because the change is committed: a failed notification must not fail its author's
        # code.
        transaction.on_commit(partial(touch, *subjects), using=using, robust=True)
