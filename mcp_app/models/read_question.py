"""Questions of prompts and resources to legacy clients."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from mcp_app.conf import DEFAULT_ENDPOINT
from mcp_app.models.exact_text import ExactCharField
from mcp_app.models.json_fields import StoredJSONField
from mcp_app.models.row import Row
from mcp_app.models.utc_date_time import Now, UTCDateTimeField


class ReadQuestion(Row):
    """A question of a prompt or resource that is being served, and its answer for the server process that waits.

    It is deleted when that process has read the answer or stops waiting. Questions of calls are in the calls' own rows.
    """

    read = models.UUIDField(help_text=_("what asks"))
    number = models.PositiveIntegerField(help_text=_("the JSON-RPC id of the question"))
    session = models.UUIDField(
        null=True, help_text=_("the session whose client is asked; null: the client of the connection")
    )
    issuer = ExactCharField(max_length=255, blank=True, default="")
    subject = ExactCharField(max_length=255, blank=True, default="")
    client_id = ExactCharField(max_length=255, blank=True, default="")
    endpoint = ExactCharField(
        max_length=64, default=DEFAULT_ENDPOINT, help_text=_("of the request that is being served")
    )
    network = ExactCharField(
        max_length=64,
        blank=True,
        default="",
        help_text=_("the network by which limits count its anonymous caller; empty for other callers"),
    )
    jsonrpc_id = StoredJSONField(help_text=_("of the request that is being served, its JSON type kept"))
    server = models.UUIDField(help_text=_("boot id of the server process that waits"))
    answer = StoredJSONField(null=True, help_text=_("the JSON-RPC response, as it was sent"))
    asked_at = UTCDateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()
        indexes: ClassVar = [
            models.Index(fields=("issuer", "subject", "client_id"), name="mcp_read_question_principal"),
            models.Index(fields=("session",), name="mcp_read_question_session"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=("read", "number"), name="mcp_read_question_number"),
        ]

    def __str__(self) -> str:
        return f"{self.read} {self.number}"
