"""The site's pages: the one at `/`, and the admin; and what load balancers and containers ask."""

from django.contrib import admin
from django.urls import include, path

from mcpsite.views import home

urlpatterns = [
    path("", home, name="home"),
    path("admin/", admin.site.urls),
    path("health/", include("mcp_app.health.urls")),
]
