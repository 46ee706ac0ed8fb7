"""The page that is scraped, where the site includes it."""

from django.urls import path

from mcp_app.metrics import views

app_name = "mcp_metrics"
urlpatterns = [path("", views.metrics, name="metrics")]
