"""The admin of the example site's own models."""

from django.contrib import admin

from mcp_app.admin.lists.lookups import OfferedLookupsAdmin
from mcp_app.admin.requests.request_columns import text_column
from mcpsite.models import Contact


@admin.register(Contact)
class ContactAdmin(OfferedLookupsAdmin):
    list_display = ("shown_email", "shown_name", "shown_company", "shown_phone", "updated_at")
    search_fields = ("email", "name", "company", "phone")
    readonly_fields = ("updated_at",)
    show_full_result_count = False  # it would count the whole table a second time

    # The text of contacts comes from untrusted files.
    shown_email = text_column("email", "email", ordering="email")
    shown_name = text_column("name", "name", ordering="name")
    shown_company = text_column("company", "company", ordering="company")
    shown_phone = text_column("phone", "phone", ordering="phone")
