"""The admin's pages of cancellations."""

from django.contrib import admin

from mcp_app.admin.read_only import ReadOnlyAdmin
from mcp_app.models import Cancellation


@admin.register(Cancellation)
class CancellationAdmin(ReadOnlyAdmin):
    pass
