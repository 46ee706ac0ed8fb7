"""A site with two admins: Django's default, and a custom one with another name and address."""

from django.contrib import admin
from django.urls import path

from mcp_app.admin.requests.pages import CancelledRequestAdmin, InFlightRequestAdmin, RequestAdmin
from mcp_app.models import CancelledRequest, InFlightRequest, Request

backstage = admin.AdminSite("backstage")
backstage.register(Request, RequestAdmin)
backstage.register(InFlightRequest, InFlightRequestAdmin)
backstage.register(CancelledRequest, CancelledRequestAdmin)

urlpatterns = [path("admin/", admin.site.urls), path("backstage/", backstage.urls)]
