"""A list and pages that show rows and change none."""

from typing import Any

from django.http import HttpRequest

from mcp_app.admin.lists.bounded_pages import BoundedPaginator
from mcp_app.admin.lists.lookups import OfferedLookupsAdmin


class ReadOnlyAdmin(OfferedLookupsAdmin):
    """Nothing can be added, changed or deleted here, whatever the user's permissions are."""

    paginator = BoundedPaginator
    show_full_result_count = False  # a second COUNT over the whole table

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
