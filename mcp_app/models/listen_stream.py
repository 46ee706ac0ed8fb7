"""The open listen streams of clients of 2026-07-28 and later."""

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


class ListenStream(Row):
    """An open `subscriptions/listen`, for the admin, which can close it.

    The row is written shortly after the stream was acknowledged, and deleted when it has ended. The stream itself does
    not need it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    server = models.UUIDField(help_text=_("boot id of the server process that holds it"))
    issuer = ExactCharField(max_length=255, blank=True, default="")
    subject = ExactCharField(max_length=255, blank=True, default="")
    client_id = ExactCharField(max_length=255, blank=True, default="")
    endpoint = ExactCharField(max_length=64, default=DEFAULT_ENDPOINT, help_text=_("the endpoint that received it"))
    principal_label = models.CharField(max_length=255)
    remote_address = models.CharField(max_length=64, blank=True, default="")
    protocol_version = models.CharField(max_length=16)
    client_name = models.CharField(max_length=255, blank=True, default="", help_text=_("and version, unverified"))
    filter = StoredJSONField(
        default=dict, help_text=_("the acknowledged filter: the notifications that its client receives")
    )
    opened_at = UTCDateTimeField(db_default=Now())
    close_requested_at = UTCDateTimeField(null=True)
    close_requested_by = models.CharField(max_length=255, blank=True, default="")

    class Meta:
        ordering = ("-opened_at",)
        default_permissions = ("view",)
        permissions = (("close_listenstream", _("Can close a listen stream")),)
        indexes: ClassVar = [
            models.Index(fields=("-opened_at",), name="mcp_listen_opened"),
            models.Index(fields=("server", "close_requested_at"), name="mcp_listen_server"),
        ]

    def __str__(self) -> str:
        return safe_text(f"{self.protocol_version} {self.principal_label}")
