"""The URL of the page that Prometheus scrapes."""

from django.urls import path

from mcp_app.metrics import views

app_name = "mcp_metrics"
urlpatterns = [path("", views.metrics, name="metrics")]
