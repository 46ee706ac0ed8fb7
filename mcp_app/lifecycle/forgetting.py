"""Change versions that nobody needs any more: those of resources that no session watches, of sessions that ended, of
streams that were closed.

A step of supervision, in small batches: any URI may be notified, so that they would fill the table. Refuses to let a
version go back: what is forgotten leaves its height behind, and a new one begins above it. A listener to one that is
forgotten is told of nothing until the next change.
"""

from datetime import UTC, datetime
from itertools import islice
from typing import Final

from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Now

from mcp_app.lifecycle import listen_streams, sessions
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import ChangeVersion, Session
from mcp_app.models.change_version import FORGOTTEN

BATCH: Final = 500
UNCHANGED_SECONDS: Final = 86_400.0
"""How long a version is kept after its last change: every listener has looked by then."""
INTERVAL: Final = 3_600.0
"""How often it is looked for old ones, unless the last look found a whole batch."""
NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


def forget_old_versions() -> None:
    """Forget at most one batch, if it is time."""
    if not _is_due():
        return
    watched = _watched()
    old = _old().order_by("changed_at").values_list("subject", flat=True)
    found = list(islice((subject for subject in old.iterator() if subject not in watched), BATCH))
    _forget(found, is_last=len(found) < BATCH)


def _is_due() -> bool:
    looked = ChangeVersion.objects.filter(subject=FORGOTTEN, changed_at__gte=from_now(-INTERVAL))
    return not looked.exists()


@transactional
def _forget(subjects: list[str], *, is_last: bool) -> None:
    ChangeVersion.objects.get_or_create(subject=FORGOTTEN, defaults={"changed_at": NEVER})
    forgotten = ChangeVersion.objects.select_for_update().get(subject=FORGOTTEN)
    # One that was changed meanwhile is old no more.
    unchanged = _old().filter(subject__in=subjects)
    highest = unchanged.aggregate(highest=Max("version"))["highest"] or 0
    noted = {"changed_at": Now()} if is_last else {}
    ChangeVersion.objects.filter(subject=FORGOTTEN).update(version=max(forgotten.version, highest), **noted)
    unchanged.filter(version__lte=highest).delete()


def _old() -> QuerySet[ChangeVersion]:
    named = Q(subject__startswith="resource:")
    for kind in (sessions.SUBJECT, listen_streams.SUBJECT):
        named |= Q(subject__startswith=kind)
    return ChangeVersion.objects.filter(named, changed_at__lt=from_now(-UNCHANGED_SECONDS))


def _watched() -> set[str]:
    watched = set()
    for session_id, told in Session.objects.values_list("pk", "told").iterator():
        watched.add(sessions.subject(session_id))
        watched.update(told)
    return watched
