"""The admin's pages of the example site's own data."""

from django.contrib import admin

from mcpsite.models import Contact


@admin.register(Contact)
class ContactAdmin(admin.ModelAdmin):
    list_display = ("email", "name", "company", "phone", "updated_at")
    search_fields = ("email", "name", "company", "phone")
    readonly_fields = ("updated_at",)
    show_full_result_count = False  # a second COUNT over the whole table
