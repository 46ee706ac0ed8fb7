"""What a list that keeps itself current needs to know its rows by: Django's template has the cells alone."""

from collections.abc import Iterable, Iterator
from typing import Any

from django import template

register = template.Library()


@register.filter
def of_rows(results: Iterable[Any], changelist: Any) -> Iterator[tuple[Any, Any]]:
    """Each row of the page with its cells."""
    return zip(changelist.result_list, results, strict=True)
