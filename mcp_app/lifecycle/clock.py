"""Database time: every timestamp and every comparison of ages, so that hosts with different clocks agree."""

from datetime import timedelta

from django.db.models import DateTimeField, ExpressionWrapper
from django.db.models.expressions import Combinable
from django.db.models.functions import Now


def from_now(seconds: float) -> Combinable:
    """The database's time `seconds` from now; negative for the past."""
    if not seconds:
        return Now()  # SQLite adds a duration in Python, row by row
    return ExpressionWrapper(Now() + timedelta(seconds=seconds), output_field=DateTimeField())
