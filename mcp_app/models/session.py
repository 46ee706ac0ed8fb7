"""The sessions of legacy clients."""

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from mcp_app.conf import DEFAULT_ENDPOINT
from mcp_app.models.exact_text import ExactCharField
from mcp_app.models.json_fields import StoredJSONField
from mcp_app.models.row import Row
from mcp_app.models.utc_date_time import Now, UTCDateTimeField
from mcp_app.safe_text import safe_text


class Session(Row):
    """The session of a legacy client, which any server process can serve. `id` in hex is its `Mcp-Session-Id`.

    The id is no credential. A caller must be the session's principal.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    issuer = ExactCharField(max_length=255, blank=True, default="")
    subject = ExactCharField(max_length=255, blank=True, default="")
    client_id = ExactCharField(max_length=255, blank=True, default="")
    endpoint = ExactCharField(
        max_length=64, default=DEFAULT_ENDPOINT, help_text=_("the endpoint at which it was started")
    )
    network = ExactCharField(
        max_length=64,
        blank=True,
        default="",
        help_text=_("the network by which limits count its anonymous caller; empty for other callers"),
    )
    principal_label = models.CharField(max_length=255)
    protocol_version = models.CharField(max_length=16, help_text=_("as negotiated"))
    client_info = StoredJSONField(default=dict, help_text=_("unverified: for display only"))
    client_capabilities = StoredJSONField(default=dict)
    log_level = models.CharField(max_length=16, blank=True, default="")
    created_at = UTCDateTimeField(db_default=Now())
    seen_at = UTCDateTimeField(db_default=Now())

    stream = models.UUIDField(null=True, help_text=_("the connection that has its GET stream"))
    stream_server = models.UUIDField(null=True, help_text=_("boot id of the server process of that connection"))
    stream_seq = models.PositiveBigIntegerField(default=0, help_text=_("number of the newest event of its GET stream"))
    subscriptions = StoredJSONField(
        default=list, help_text=_("the resources to whose changes its client has subscribed")
    )
    told = StoredJSONField(
        default=dict, help_text=_("for each subject, the last version that was sent, and in which event")
    )

    class Meta:
        ordering = ("-seen_at",)
        default_permissions = ("view",)
        permissions = (("close_session", _("Can close a session, which cancels its calls")),)
        indexes: ClassVar = [
            models.Index(fields=("issuer", "subject", "client_id", "seen_at"), name="mcp_session_principal"),
            models.Index(fields=("seen_at",), name="mcp_session_seen"),
        ]

    def __str__(self) -> str:
        return safe_text(f"{self.protocol_version} {self.principal_label}")
