"""The rows: tools, requests and their events, the audit of cancellations, sessions, live processes, change versions.

Owns shapes, indexes and what a row refuses. The life of a request is written by `lifecycle` alone; rows name users and
requests by value, not by foreign key, so that they may live in a database of their own and the audit outlives both.
"""

import uuid
from typing import Any, ClassVar

from django.apps import apps
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from mcp_app import databases
from mcp_app.states import CancelPolicy, Cause, EventKind, Outcome, ProcessRole, Stage, Status

TOOL_LIST = "tools"
"""The `ChangeVersion` of the list of tools."""


class Tool(models.Model):
    """What the site's administrators say about one tool; null overrides mean "as the code says"."""

    name = models.CharField(max_length=128, primary_key=True)
    enabled = models.BooleanField(default=True)
    title = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001 - null: the code's title
    description = models.TextField(null=True, blank=True)  # noqa: DJ001 - null: the code's description
    cancel_policy = models.CharField(  # noqa: DJ001 - null: the code's policy
        max_length=16, choices=CancelPolicy.choices, null=True, blank=True
    )
    cooperative_grace = models.FloatField(null=True, blank=True, help_text=_("seconds"))
    hard_grace = models.FloatField(null=True, blank=True, help_text=_("seconds"))
    time_limit = models.FloatField(null=True, blank=True, help_text=_("seconds"))
    queue = models.CharField(max_length=128, null=True, blank=True)  # noqa: DJ001 - null: the code's queue
    location = models.CharField(max_length=255, help_text=_("module and function of the code"))
    registered = models.BooleanField(default=True, help_text=_("the code is there"))
    registered_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("name",)
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        with databases.atomic():
            super().save(*args, **kwargs)
            ChangeVersion.bump(TOOL_LIST)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        with databases.atomic():
            ChangeVersion.bump(TOOL_LIST)
            return super().delete(*args, **kwargs)


class Request(models.Model):
    """One JSON-RPC request that became a row. `id` names the Celery task as well; the client's id is data only."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    jsonrpc_id = models.JSONField(help_text=_("the client's id, its JSON type kept"))
    method = models.CharField(max_length=64)
    tool = models.CharField(max_length=128)
    protocol_version = models.CharField(max_length=16)
    arguments = models.JSONField(default=dict)
    progress_token = models.JSONField(null=True)
    log_level = models.CharField(max_length=16, blank=True, default="")
    client_info = models.JSONField(default=dict, help_text=_("unverified: for display only"))
    client_capabilities = models.JSONField(default=dict)
    trace_context = models.JSONField(default=dict)

    issuer = models.CharField(max_length=255, blank=True, default="")
    subject = models.CharField(max_length=255, blank=True, default="")
    client_id = models.CharField(max_length=255, blank=True, default="")
    principal_label = models.CharField(max_length=255)
    user_id = models.CharField(max_length=64, blank=True, default="")
    remote_address = models.CharField(max_length=64, blank=True, default="")

    status = models.CharField(max_length=16, choices=Status.choices, default=Status.QUEUED)
    submitted_at = models.DateTimeField(db_default=Now())
    queued_at = models.DateTimeField(db_default=Now(), help_text=_("submitted, or answered what it asked"))
    published_at = models.DateTimeField(null=True)
    claimed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(
        null=True, help_text=_("queued: for the claim; asking: for the answers; running: for the end")
    )
    result = models.JSONField(null=True, help_text=_("a CallToolResult"))
    partial_result = models.JSONField(null=True, help_text=_("what a cancelled tool handed back"))
    error = models.JSONField(null=True, help_text=_("code and message, for the log and the admin"))

    input_round = models.PositiveIntegerField(default=0, help_text=_("how often its client was asked for input"))
    questions = models.JSONField(default=dict, help_text=_("what is asked now: an InputRequests object"))
    answers = models.JSONField(default=dict, help_text=_("what was answered so far: an InputResponses object"))
    visited = models.JSONField(default=dict, help_text=_("what its user did on the pages it sent them to, by key"))
    kept = models.JSONField(default=dict, help_text=_("what the tool wanted done once, by its key"))

    task_handle = models.UUIDField(
        null=True, unique=True, editable=False, help_text=_("what its client knows it by, as a task; shown to no other")
    )
    task_created_at = models.DateTimeField(null=True)
    task_expires_at = models.DateTimeField(null=True, help_text=_("from then on the handle is unknown"))

    cancel_requested_at = models.DateTimeField(null=True)
    cancel_cause = models.CharField(max_length=16, choices=Cause.choices, blank=True, default="")
    cancel_actor = models.CharField(max_length=255, blank=True, default="")
    cancel_reason = models.CharField(max_length=1024, blank=True, default="")
    stage = models.PositiveSmallIntegerField(choices=Stage.choices, default=Stage.NONE)
    killing = models.BooleanField(default=False, help_text=_("the fence: only the killer may close the row"))

    cancel_policy = models.CharField(max_length=16, choices=CancelPolicy.choices)
    cooperative_grace = models.FloatField()
    hard_grace = models.FloatField()
    time_limit = models.FloatField()
    queue = models.CharField(max_length=128)

    session = models.UUIDField(null=True, help_text=_("the session of its client, in revisions that have them"))
    follower = models.UUIDField(null=True, help_text=_("the connection that resumed its stream; null: the first"))
    left_at = models.DateTimeField(null=True, help_text=_("since when no client of its session follows it"))

    server = models.UUIDField(null=True, help_text=_("boot id of the server process whose client waits"))
    worker = models.UUIDField(null=True, help_text=_("boot id of the worker process that claimed it"))
    worker_pid = models.PositiveIntegerField(null=True, help_text=_("the worker's child that runs the tool"))
    event_seq = models.PositiveBigIntegerField(default=1, help_text=_("sequence number of its newest event"))
    progress = models.FloatField(null=True)
    progress_total = models.FloatField(null=True)
    progress_message = models.CharField(max_length=1024, blank=True, default="")

    class Meta:
        ordering = ("-submitted_at",)
        default_permissions = ("view",)
        permissions = (
            ("cancel_request", _("Can cancel a request")),
            ("view_request_payload", _("Can see what requests were given and what they returned")),
        )
        indexes: ClassVar = [
            models.Index(fields=("-submitted_at",), name="mcp_request_submitted"),
            models.Index(fields=("tool", "-submitted_at"), name="mcp_request_tool"),
            models.Index(fields=("issuer", "subject", "client_id"), name="mcp_request_principal"),
            # Not a partial index on the open ones: SQLite uses none whose condition it meets as a bound parameter.
            models.Index(fields=("status", "submitted_at"), name="mcp_request_status"),
            models.Index(fields=("session", "status"), name="mcp_request_session"),
            models.Index(
                fields=("-cancel_requested_at",),
                name="mcp_request_cancelled",
                condition=models.Q(cancel_requested_at__isnull=False),
            ),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(cancel_requested_at__isnull=False) | models.Q(cancel_cause=""),
                name="mcp_request_cause_has_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.id}"

    @property
    def celery_result(self) -> models.Model | None:
        """Celery's own view of the run (django-celery-results): state, traceback, worker. Never the truth."""
        stored = apps.get_model("django_celery_results", "TaskResult")._default_manager
        result: models.Model | None = stored.filter(task_id=str(self.pk)).first()
        return result


class InFlightRequest(Request):
    """The requests that have not ended, as a list of their own in the admin."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("request in flight")
        verbose_name_plural = _("requests in flight")


class CancelledRequest(Request):
    """The requests whose cancellation was asked for, as a list of their own in the admin."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("cancelled request")
        verbose_name_plural = _("cancelled requests")


class RequestEvent(models.Model):
    """One thing that happened to a request: a transition, progress, a log line. Numbered from 1 without reuse."""

    request = models.ForeignKey(Request, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=16, choices=EventKind.choices)
    data = models.JSONField(default=dict)
    recorded_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("seq",)
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=("request", "seq"), name="mcp_event_request_seq"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id} {self.seq} {self.kind}"


class AppendOnlyError(TypeError):
    """An audit row was to be changed or deleted. Audit rows are only ever added."""


class CancellationQuerySet(models.QuerySet["Cancellation"]):
    def update(self, **kwargs: Any) -> int:
        raise AppendOnlyError("audit rows cannot be changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise AppendOnlyError("audit rows cannot be deleted")

    def settle(self, **values: Any) -> int:
        """Write how an accepted cancellation ended, once."""
        return super().filter(settled_at__isnull=True)._settle(values)

    def _settle(self, values: dict[str, Any]) -> int:
        return super().update(**values)


class Cancellation(models.Model):
    """The audit: one row for an attempt to cancel. `settled_at` seals it; until then only `settle` may complete it."""

    request_id = models.UUIDField(null=True, db_index=True)
    requested_id = models.CharField(max_length=255, blank=True, default="", help_text=_("an id nobody knows"))
    tool = models.CharField(max_length=128, blank=True, default="")
    issuer = models.CharField(max_length=255, blank=True, default="")
    subject = models.CharField(max_length=255, blank=True, default="")
    client_id = models.CharField(max_length=255, blank=True, default="")
    principal_label = models.CharField(max_length=255, blank=True, default="")
    client_name = models.CharField(max_length=255, blank=True, default="")
    cause = models.CharField(max_length=16, choices=Cause.choices)
    actor = models.CharField(max_length=255)
    actor_address = models.CharField(max_length=64, blank=True, default="")
    reason = models.CharField(max_length=1024, blank=True, default="")
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    status_before = models.CharField(max_length=16, choices=Status.choices, blank=True, default="")
    status_after = models.CharField(max_length=16, choices=Status.choices, blank=True, default="")
    stage = models.PositiveSmallIntegerField(choices=Stage.choices, default=Stage.NONE)
    requested_at = models.DateTimeField(db_default=Now())
    stopped_at = models.DateTimeField(null=True)
    latency_ms = models.FloatField(null=True, help_text=_("from requested to stopped"))
    settled_at = models.DateTimeField(null=True)

    objects = CancellationQuerySet.as_manager()

    class Meta:
        ordering = ("-requested_at", "-pk")
        default_permissions = ("view",)
        indexes: ClassVar = [
            models.Index(fields=("-requested_at",), name="mcp_cancellation_requested"),
            models.Index(fields=("cause", "-requested_at"), name="mcp_cancellation_cause"),
            models.Index(fields=("tool", "-requested_at"), name="mcp_cancellation_tool"),
            models.Index(fields=("actor", "-requested_at"), name="mcp_cancellation_actor"),
            models.Index(fields=("outcome", "-requested_at"), name="mcp_cancellation_outcome"),
            models.Index(fields=("stage", "-requested_at"), name="mcp_cancellation_stage"),
        ]

    def __str__(self) -> str:
        return f"{self.cause} {self.outcome} {self.request_id or self.requested_id}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnlyError("audit rows cannot be changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise AppendOnlyError("audit rows cannot be deleted")


class Session(models.Model):
    """A client's session in a revision that has them; any process serves it. `id` in hex is its `Mcp-Session-Id`.

    It proves nothing by itself: whoever names it must be its principal.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    issuer = models.CharField(max_length=255, blank=True, default="")
    subject = models.CharField(max_length=255, blank=True, default="")
    client_id = models.CharField(max_length=255, blank=True, default="")
    principal_label = models.CharField(max_length=255)
    protocol_version = models.CharField(max_length=16, help_text=_("as negotiated"))
    client_info = models.JSONField(default=dict, help_text=_("unverified: for display only"))
    client_capabilities = models.JSONField(default=dict)
    log_level = models.CharField(max_length=16, blank=True, default="")
    created_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())

    stream = models.UUIDField(null=True, help_text=_("the connection that has its GET stream"))
    stream_server = models.UUIDField(null=True, help_text=_("boot id of the server process of that connection"))
    stream_seq = models.PositiveBigIntegerField(default=0, help_text=_("number of the newest event of its GET stream"))
    subscriptions = models.JSONField(default=list, help_text=_("the resources whose changes are told"))
    told = models.JSONField(default=dict, help_text=_("of each subject: the version told, and in which event"))

    class Meta:
        ordering = ("-seen_at",)
        default_permissions = ()
        indexes: ClassVar = [
            models.Index(fields=("issuer", "subject", "client_id", "seen_at"), name="mcp_session_principal"),
            models.Index(fields=("seen_at",), name="mcp_session_seen"),
        ]

    def __str__(self) -> str:
        return f"{self.protocol_version} {self.principal_label}"


class Process(models.Model):
    """A live server or worker process, by its boot id; its heartbeat is database time."""

    boot_id = models.UUIDField(primary_key=True)
    role = models.CharField(max_length=16, choices=ProcessRole.choices)
    hostname = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    stopped_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-started_at",)
        default_permissions = ()
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{self.role} {self.hostname}:{self.pid}"


class ChangeVersion(models.Model):
    """A counter bumped in the transaction that changes what it names; listeners compare it."""

    subject = models.CharField(max_length=255, primary_key=True)
    version = models.PositiveBigIntegerField(default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.subject} {self.version}"

    @classmethod
    def bump(cls, subject: str) -> None:
        """Count one change, inside the transaction that makes it."""
        cls.objects.get_or_create(subject=subject)
        cls.objects.filter(subject=subject).update(version=models.F("version") + 1)
