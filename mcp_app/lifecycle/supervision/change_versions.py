"""Delete change versions that are no longer needed.

A `ChangeVersion` counts the changes of one subject, such as a resource, a session or the listen
streams of a server process. A site may notify any URI, so that the table would grow without limit.
A step of supervision therefore deletes the versions of resources that no session watches, of
sessions that have ended, and of streams that were closed.

A version must never get smaller. So the highest deleted version is kept in a row of its own
(`FORGOTTEN`), and new subjects begin above it. A stream that listens to a deleted subject is
notified at its next change.
"""

from datetime import UTC, datetime
from itertools import islice
from typing import Final

from django.db.models import Max, Q, QuerySet

from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.sessions import listen_streams, sessions
from mcp_app.models import ChangeVersion, Session
from mcp_app.models.change_version import FORGOTTEN
from mcp_app.models.utc_date_time import Now

BATCH: Final = 500
UNCHANGED_SECONDS: Final = 86_400.0
"""How long a version is kept after its last change. By then, every listener has read it."""
INTERVAL: Final = 3_600.0
"""Seconds between searches for old versions, unless the last search found a whole batch."""
NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


def forget_old_versions() -> None:
    """Delete one batch at most, if a search is due. A step of supervision."""
    if ChangeVersion.objects.filter(subject=FORGOTTEN, changed_at__gte=from_now(-INTERVAL)).exists():
        return
    watched = set()
    for session_id, versions in Session.objects.values_list("pk", "told").iterator():
        watched.add(sessions.subject(session_id))
        watched.update(versions)
    old = _old().order_by("changed_at").values_list("subject", flat=True)
    found = list(islice((subject for subject in old.iterator() if subject not in watched), BATCH))
    _forget(found, is_last=len(found) < BATCH)


@transactional
def _forget(subjects: list[str], *, is_last: bool) -> None:
    ChangeVersion.objects.get_or_create(subject=FORGOTTEN, defaults={"changed_at": NEVER})
    forgotten = ChangeVersion.objects.select_for_update().get(subject=FORGOTTEN)
    # A version that has changed since it was found is no longer old.
    unchanged = _old().filter(subject__in=subjects)
    highest = unchanged.aggregate(highest=Max("version"))["highest"] or 0
    columns = {"changed_at": Now()} if is_last else {}
    ChangeVersion.objects.filter(subject=FORGOTTEN).update(version=max(forgotten.version, highest), **columns)
    unchanged.filter(version__lte=highest).delete()


def _old() -> QuerySet[ChangeVersion]:
    named = Q(subject__startswith="resource:")
    for kind in (sessions.SUBJECT, listen_streams.SUBJECT):
        named |= Q(subject__startswith=kind)
    return ChangeVersion.objects.filter(named, changed_at__lt=from_now(-UNCHANGED_SECONDS))
