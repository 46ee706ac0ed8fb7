"""Bearer tokens of the site."""

from typing import ClassVar

from django.db import models

from mcp_app.models.exact_text import ExactCharField
from mcp_app.models.json_fields import StoredJSONField
from mcp_app.models.row import Row
from mcp_app.models.utc_date_time import Now, UTCDateTimeField
from mcp_app.safe_text import safe_text


class Token(Row):
    """A credential of a user for a client. Only a digest of the token is stored."""

    prefix = ExactCharField(max_length=16, unique=True)
    """The first part of the token, which is not secret. Tokens are looked up and shown by it."""
    digest = models.CharField(max_length=64)
    """SHA-256 of the whole token, in hexadecimal."""
    name = models.CharField(max_length=255)
    """The purpose of the token, given by the user who created it."""
    user_id = ExactCharField(max_length=64, db_index=True)
    user_label = models.CharField(max_length=255)
    scopes = StoredJSONField(null=True, blank=True)
    """A list of strings, or null if the token is not limited by scopes."""
    created_at = UTCDateTimeField(db_default=Now())
    created_by = models.CharField(max_length=255)
    expires_at = UTCDateTimeField(null=True, blank=True)
    revoked_at = UTCDateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=255, blank=True, default="")
    last_used_at = UTCDateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)
        default_permissions = ("add", "change", "view")
        indexes: ClassVar = [models.Index(fields=("-created_at",), name="mcp_token_created")]

    def __str__(self) -> str:
        return safe_text(f"{self.prefix}… ({self.name})")
