"""Settings of tools that administrators change."""

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from mcp_app import databases
from mcp_app.models.exact_text import ExactCharField
from mcp_app.models.row import Row
from mcp_app.models.utc_date_time import Now, UTCDateTimeField
from mcp_app.safe_text import safe_text
from mcp_app.states import CancelPolicy


class Tool(Row):
    """An administrator's settings for a tool. A column that is null leaves the value of the code in place."""

    name = ExactCharField(max_length=128, primary_key=True)
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
    registered = models.BooleanField(default=True, help_text=_("whether the code exists"))
    registered_at = UTCDateTimeField(db_default=Now())
    updated_at = UTCDateTimeField(db_default=Now())

    class Meta:
        ordering = ("name",)
        default_permissions = ("view", "change")
        permissions = (("call_tool", _("Can try tools from the admin")),)

    def __str__(self) -> str:
        return safe_text(self.name)

    def save(self, *args: Any, **kwargs: Any) -> None:
        with databases.atomic():  # together with the change version, which a signal's receiver writes
            super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        with databases.atomic():
            return super().delete(*args, **kwargs)
