"""A site that includes the metrics."""

from django.urls import include, path

urlpatterns = [path("metrics", include("mcp_app.metrics.urls"))]
