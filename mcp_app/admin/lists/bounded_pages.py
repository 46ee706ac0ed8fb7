"""Page through the first rows of a list of any length, up to a limit.

A page neither counts nor skips through a table of millions of rows. Filters and the search lead to the other rows.
"""

from typing import Any, Final

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.functional import cached_property

COUNTED: Final = 10_000


class BoundedPaginator(Paginator):
    """A paginator with an upper limit. `is_cut` is true if there are more rows than `count`."""

    @cached_property
    def _found(self) -> int:
        return count(self.object_list, COUNTED + 1)  # type: ignore[arg-type]  # the admin gives it no other

    @cached_property
    def count(self) -> int:
        return min(self._found, COUNTED)

    @property
    def is_cut(self) -> bool:
        return self._found > COUNTED


def count(rows: QuerySet[Any], most: int) -> int:
    """Return how many rows there are, or `most`, without looking at more.

    They are counted by the field that orders them, so by its index. Lists are ordered by names of fields or
    annotations, not by expressions.
    """
    column = str(next(iter(rows.query.order_by or rows.model._meta.ordering), "pk")).lstrip("-")
    found: int = rows.order_by().values(column)[:most].count()
    return found
