"""The admin's pages of requests."""

from django.contrib import admin

from mcp_app.admin.read_only import ReadOnlyAdmin
from mcp_app.models import Request


@admin.register(Request)
class RequestAdmin(ReadOnlyAdmin):
    pass
