"""Give the rows of a self-updating list their ids, because Django's template has only the cells."""

from collections.abc import Iterable, Iterator
from typing import Any

from django import template

register = template.Library()


@register.filter
def of_rows(results: Iterable[Any], changelist: Any) -> Iterator[tuple[Any, Any]]:
    """Return each row of the page with its cells."""
    return zip(changelist.result_list, results, strict=True)
