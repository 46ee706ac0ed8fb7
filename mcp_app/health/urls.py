"""The URLs `live/` and `ready/`."""

from django.urls import path

from mcp_app.health import views

app_name = "mcp_health"
urlpatterns = [path("live/", views.live, name="live"), path("ready/", views.ready, name="ready")]
