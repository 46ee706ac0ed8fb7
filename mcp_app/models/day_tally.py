"""Counts of ended calls by day, for statistics over long periods."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from mcp_app.models.exact_text import ExactCharField
from mcp_app.models.row import Row
from mcp_app.models.utc_date_time import UTCDateTimeField
from mcp_app.safe_text import safe_text
from mcp_app.states import Cause, Measure, Stage, Status


class DayTally(Row):
    """The sum of the tallies of a past day in one time zone, for one tool or for all.

    It is never changed (`lifecycle.statistics.tallies`). With it, a month is read without its hours.
    """

    zone = ExactCharField(max_length=64, help_text=_("the time zone of the day"))
    begins_at = UTCDateTimeField(help_text=_("its midnight"))
    tool = ExactCharField(max_length=128, blank=True, default="", help_text=_("empty: all tools"))
    measure = models.CharField(max_length=8, choices=Measure.choices)
    status = models.CharField(max_length=16, choices=Status.choices)
    cause = models.CharField(max_length=16, choices=Cause.choices, blank=True, default="")
    stage = models.PositiveSmallIntegerField(choices=Stage.choices, default=Stage.NONE)
    bucket = models.SmallIntegerField(help_text=_("as in a tally"))
    count = models.PositiveBigIntegerField()
    seconds = models.FloatField()

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=("zone", "tool", "begins_at", "measure", "status", "cause", "stage", "bucket"),
                name="mcp_day_tally_key",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=("zone", "begins_at"), name="mcp_day_tally_begins")]

    def __str__(self) -> str:
        return safe_text(
            f"{self.begins_at:%Y-%m-%d} {self.zone} {self.tool} {self.measure} {self.status}: {self.count}"
        )
