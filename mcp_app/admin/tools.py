"""The admin's pages of tools."""

from django.contrib import admin

from mcp_app.admin.read_only import ReadOnlyAdmin
from mcp_app.models import Tool


@admin.register(Tool)
class ToolAdmin(ReadOnlyAdmin):
    pass
