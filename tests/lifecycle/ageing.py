"""Make all rows older, except the audit, as if time had passed."""

from datetime import timedelta

from django.db.models import F

from mcp_app.models import Process, Request, Session

REQUEST_TIMES = (
    *("submitted_at", "queued_at", "published_at", "claimed_at", "finished_at", "deadline_at"),
    *("left_at", "cancel_requested_at", "task_created_at", "task_expires_at"),
)


def pass_time(seconds: float) -> None:
    past = timedelta(seconds=seconds)
    Process.objects.update(heartbeat_at=F("heartbeat_at") - past)
    Session.objects.update(seen_at=F("seen_at") - past)
    Request.objects.update(**{name: F(name) - past for name in REQUEST_TIMES})
