"""Counts of ended calls by hour."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from mcp_app.models.exact_text import ExactCharField
from mcp_app.models.row import Row
from mcp_app.models.utc_date_time import UTCDateTimeField
from mcp_app.safe_text import safe_text
from mcp_app.states import Cause, Measure, Stage, Status


class Tally(Row):
    """The number of calls of a tool within an hour that ended alike and whose duration is in the same bucket.

    It is kept when the calls are purged (`lifecycle.statistics.tallies`).
    """

    hour = UTCDateTimeField(help_text=_("its start, in UTC"))
    tool = ExactCharField(max_length=128)
    measure = models.CharField(max_length=8, choices=Measure.choices)
    status = models.CharField(max_length=16, choices=Status.choices)
    cause = models.CharField(max_length=16, choices=Cause.choices, blank=True, default="")
    stage = models.PositiveSmallIntegerField(choices=Stage.choices, default=Stage.NONE)
    bucket = models.SmallIntegerField(help_text=_("the number of its bucket of durations; -1: there was no duration"))
    count = models.PositiveBigIntegerField(default=0)
    seconds = models.FloatField(default=0.0, help_text=_("their sum"))

    class Meta:
        default_permissions = ("view",)
        verbose_name_plural = _("activity")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=("hour", "tool", "measure", "status", "cause", "stage", "bucket"), name="mcp_tally_key"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=("tool", "hour"), name="mcp_tally_tool")]

    def __str__(self) -> str:
        return safe_text(f"{self.hour:%Y-%m-%dT%H}Z {self.tool} {self.measure} {self.status}: {self.count}")
