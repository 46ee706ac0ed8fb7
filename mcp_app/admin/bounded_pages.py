"""Pages of a list of any length: the first of its rows, in its order, so many and no more.

A table of millions is neither counted nor skipped through for a page: filters and the search lead to the rest.
"""

from typing import Any, Final

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.functional import cached_property

COUNTED: Final = 10_000


class BoundedPaginator(Paginator):
    """`is_cut` says that there are more rows than it counts."""

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
    """How many there are, or `most`: no more are looked at. By what orders them, which their indexes have."""
    column = str(next(iter(rows.query.order_by or rows.model._meta.ordering), "pk")).lstrip("-")
    found: int = rows.order_by().values(column)[:most].count()
    return found
