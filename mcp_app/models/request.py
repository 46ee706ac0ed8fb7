"""Requests, and proxy models for the admin's lists of them."""

from typing import Any, ClassVar

from django.apps import apps
from django.db import models
from django.utils.translation import gettext_lazy as _

from mcp_app.conf import DEFAULT_ENDPOINT
from mcp_app.models import request_ids
from mcp_app.models.exact_text import ExactCharField
from mcp_app.models.json_fields import OrderedJSONField, StoredJSONField
from mcp_app.models.row import Row
from mcp_app.models.utc_date_time import Now, UTCDateTimeField
from mcp_app.safe_text import safe_text
from mcp_app.states import UNSTOPPABLE, CancelPolicy, Cause, Stage, Status


class CallerIndex(models.Index):
    """An index whose columns name a caller. On MySQL it leaves out some, because a key has at most 3072 bytes there."""

    def create_sql(self, model: type[models.Model], schema_editor: Any, using: str = "", **options: Any) -> Any:
        if schema_editor.connection.vendor != "mysql":
            return super().create_sql(model, schema_editor, using, **options)
        names = [name for name in self.fields if name not in ("issuer", "client_id")]
        return models.Index(fields=names, name=self.name).create_sql(model, schema_editor, using, **options)


class Request(Row):
    """A stored JSON-RPC request. `id` is also the id of its Celery task; the client's own id is in `jsonrpc_id`."""

    id = models.UUIDField(primary_key=True, default=request_ids.new, editable=False)
    jsonrpc_id = StoredJSONField(help_text=_("the client's id, its JSON type kept"))
    method = ExactCharField(max_length=64)
    tool = ExactCharField(max_length=128)
    protocol_version = models.CharField(max_length=16)
    arguments = OrderedJSONField(default=dict)
    progress_token = StoredJSONField(null=True)
    log_level = models.CharField(max_length=16, blank=True, default="")
    client_info = StoredJSONField(default=dict, help_text=_("unverified: for display only"))
    client_capabilities = StoredJSONField(default=dict)
    trace_context = StoredJSONField(default=dict)
    language = models.CharField(
        max_length=35, blank=True, default="", help_text=_("the language that its client requested; empty: the site's")
    )

    issuer = ExactCharField(max_length=255, blank=True, default="")
    subject = ExactCharField(max_length=255, blank=True, default="")
    client_id = ExactCharField(max_length=255, blank=True, default="")
    endpoint = ExactCharField(max_length=64, default=DEFAULT_ENDPOINT, help_text=_("the endpoint that received it"))
    principal_label = models.CharField(max_length=255)
    user_id = ExactCharField(max_length=64, blank=True, default="")
    scopes = StoredJSONField(
        null=True,
        help_text=_("the scopes of its caller's token; null: not limited by scopes, nor are the calls that it starts"),
    )
    remote_address = models.CharField(max_length=64, blank=True, default="")
    network = ExactCharField(
        max_length=64,
        blank=True,
        default="",
        help_text=_("the network by which limits count its anonymous caller; empty for other callers"),
    )

    status = models.CharField(max_length=16, choices=Status.choices, default=Status.QUEUED)
    submitted_at = UTCDateTimeField(db_default=Now())
    queued_at = UTCDateTimeField(
        db_default=Now(), help_text=_("when it was submitted, or when its last question was answered")
    )
    published_at = UTCDateTimeField(null=True)
    claimed_at = UTCDateTimeField(null=True)
    finished_at = UTCDateTimeField(null=True)
    delivered_at = UTCDateTimeField(null=True)
    tallied_at = UTCDateTimeField(null=True, help_text=_("when the statistics counted its end"))
    deadline_at = UTCDateTimeField(
        null=True,
        help_text=_("the deadline in its present status: to be claimed, to be answered, or to end"),
    )
    result = OrderedJSONField(null=True, help_text=_("a CallToolResult"))
    partial_result = OrderedJSONField(null=True, help_text=_("the partial result of a cancelled tool"))
    error = StoredJSONField(null=True, help_text=_("code and message, for the log and the admin"))

    input_round = models.PositiveIntegerField(default=0, help_text=_("how many times its client was asked for input"))
    questions = OrderedJSONField(default=dict, help_text=_("the open questions: an InputRequests object"))
    answers = OrderedJSONField(default=dict, help_text=_("the answers so far: an InputResponses object"))
    visited = StoredJSONField(default=dict, help_text=_("the results of the pages to which it sent its user, by key"))
    kept = OrderedJSONField(default=dict, help_text=_("the results of once(), by key"))

    redacted = StoredJSONField(default=list, help_text=_("the columns whose values were redacted"))
    unredacted = OrderedJSONField(
        null=True, help_text=_("the original values, by column, as long as the call or its client needs them")
    )

    task_handle = models.UUIDField(
        null=True, editable=False, help_text=_("the task id by which its client knows it; shown to no other client")
    )
    task_created_at = UTCDateTimeField(null=True)
    task_expires_at = UTCDateTimeField(null=True, help_text=_("when the task id becomes unknown"))

    cancel_requested_at = UTCDateTimeField(null=True)
    cancel_cause = models.CharField(max_length=16, choices=Cause.choices, blank=True, default="")
    cancel_actor = models.CharField(max_length=255, blank=True, default="")
    cancel_reason = models.CharField(max_length=1024, blank=True, default="")
    stage = models.PositiveSmallIntegerField(choices=Stage.choices, default=Stage.NONE)
    killing = models.BooleanField(
        default=False, help_text=_("set before a kill: then only the killer may close the row")
    )

    cancel_policy = models.CharField(max_length=16, choices=CancelPolicy.choices)
    cooperative_grace = models.FloatField()
    hard_grace = models.FloatField()
    time_limit = models.FloatField()
    caller_limit = models.FloatField(
        null=True, help_text=_("the caller's time limit in seconds, from queueing to the end; null: none")
    )
    queue = ExactCharField(max_length=128)

    parent = models.UUIDField(null=True, help_text=_("the request whose tool started it; null: a client started it"))
    children = models.PositiveIntegerField(default=0, help_text=_("how many calls its tool has started"))
    depth = models.PositiveSmallIntegerField(
        default=0, help_text=_("the number of calls above it in the chain of starting calls")
    )

    session = models.UUIDField(null=True, help_text=_("the session of its client, in the revisions that have sessions"))
    follower = models.UUIDField(
        null=True, help_text=_("the connection that resumed its stream; null: the first connection")
    )
    left_at = UTCDateTimeField(null=True, help_text=_("the time since when no client of its session has followed it"))

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
            ("view_request_payload", _("Can view the arguments and results of requests")),
        )
        indexes: ClassVar = [
            models.Index(fields=("-submitted_at",), name="mcp_request_submitted"),
            models.Index(fields=("tool", "-submitted_at"), name="mcp_request_tool"),
            models.Index(fields=("endpoint", "-submitted_at"), name="mcp_request_endpoint"),
            # Rare or short-lived states have partial indexes, because each step of a row rewrites all of its index
            # entries. The conditions are on NULL columns: SQLite does not use a partial index if the query has the
            # value of its condition as a parameter. The indexes contain the columns of their conditions, so that SQLite
            # need not read the rows.
            CallerIndex(
                fields=("issuer", "subject", "client_id", "endpoint", "network", "status", "finished_at"),
                name="mcp_request_open",
                condition=models.Q(finished_at__isnull=True),
            ),
            models.Index(fields=("status", "submitted_at"), name="mcp_request_status"),
            # Requests that wait for a worker.
            models.Index(
                fields=("queue", "queued_at", "claimed_at", "finished_at"),
                name="mcp_request_waiting",
                condition=models.Q(claimed_at__isnull=True, finished_at__isnull=True),
            ),
            models.Index(
                fields=("session", "status"), name="mcp_request_session", condition=models.Q(session__isnull=False)
            ),
            models.Index(
                fields=("parent", "status"), name="mcp_request_parent", condition=models.Q(parent__isnull=False)
            ),
            models.Index(
                fields=("finished_at",), name="mcp_request_originals", condition=models.Q(unredacted__isnull=False)
            ),
            models.Index(
                fields=("finished_at",),
                name="mcp_request_untallied",
                condition=models.Q(finished_at__isnull=False, tallied_at__isnull=True),
            ),
            # With all columns that the admin's list can be filtered by.
            models.Index(
                fields=("-cancel_requested_at", "cancel_cause", "stage", "status", "endpoint", "tool"),
                name="mcp_request_cancelled",
                condition=models.Q(cancel_requested_at__isnull=False),
            ),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=("task_handle",), name="mcp_request_handle"),
            models.CheckConstraint(
                condition=models.Q(cancel_requested_at__isnull=False) | models.Q(cancel_cause=""),
                name="mcp_request_cause_has_time",
            ),
        ]

    def __str__(self) -> str:
        return safe_text(f"{self.tool} {self.id}")

    def unredacted_value(self, column: str) -> Any:
        """Return the value of a column before redaction, if it is still kept; otherwise the stored value."""
        return (self.unredacted or {}).get(column, getattr(self, column))

    @property
    def run_limit(self) -> float:
        """Seconds that the run may take: the tool's limit, or what the caller's limit leaves if that is less."""
        if self.caller_limit is None or self.claimed_at is None:
            return self.time_limit
        return min(self.time_limit, self.caller_limit - (self.claimed_at - self.queued_at).total_seconds())

    @property
    def unstoppable(self) -> bool:
        """Whether it could not be stopped and still runs. Its client has received an error."""
        return self.status == Status.RUNNING and (self.error or {}).get("cause") == UNSTOPPABLE

    @property
    def celery_result(self) -> models.Model | None:
        """Celery's stored result of a run that failed, was stopped or was lost.

        `None` for a successful run, and on a site without django-celery-results. If both differ, the row is right.
        """
        if not apps.is_installed("django_celery_results"):
            return None
        stored = apps.get_model("django_celery_results", "TaskResult")._default_manager
        result: models.Model | None = stored.filter(task_id=str(self.pk)).first()
        return result


class InFlightRequest(Request):
    """Open requests, for a list in the admin."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("request in flight")
        verbose_name_plural = _("requests in flight")


class CancelledRequest(Request):
    """Requests that were cancelled, or must stop, for a list in the admin."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("cancelled request")
        verbose_name_plural = _("cancelled requests")
