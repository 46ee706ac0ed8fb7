"""The site's URLs: its page, the admin, and the probes."""

from django.contrib import admin
from django.urls import include, path

from mcpsite.views import favicon, home

urlpatterns = [
    path("", home, name="home"),
    path("favicon.ico", favicon),
    path("admin/", admin.site.urls),
    path("health/", include("mcp_app.health.urls")),
]
