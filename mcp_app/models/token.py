"""Bearer tokens, as far as they are kept."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class Token(models.Model):
    """A credential of one user for one client. The token itself is not kept: a digest proves it."""

    prefix = models.CharField(max_length=16, unique=True)
    """Its first part, no secret: what it is found and named by."""
    digest = models.CharField(max_length=64)
    """SHA-256 of the whole token, in hexadecimal."""
    name = models.CharField(max_length=255)
    """What it was made for, in its maker's words."""
    user_id = models.CharField(max_length=64, db_index=True)
    user_label = models.CharField(max_length=255)
    scopes = models.JSONField(null=True, blank=True)
    """A list of strings; null: not limited by scopes."""
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=255)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=255, blank=True, default="")
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)
        default_permissions = ("add", "change", "view")
        indexes: ClassVar = [models.Index(fields=("-created_at",), name="mcp_token_created")]

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"
