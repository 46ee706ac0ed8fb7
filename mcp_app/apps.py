"""The app's `AppConfig`. It loads the tools and the Celery integration once every app is ready."""

from importlib import import_module

from django.apps import AppConfig

from mcp_app.transport.stdio.streams import claim_early

# This must run before the apps after this one are loaded, and before any `ready()`.
claim_early()


class MCPAppConfig(AppConfig):
    name = "mcp_app"
    label = "mcp_app"
    verbose_name = "Model Context Protocol"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        import_module("mcp_app.embedded.broker").register()
        import_module("mcp_app.site_defaults").set_up(self)
        import_module("mcp_app.checks")
        import_module("mcp_app.execution.worker")
        import_module("mcp_app.catalogue.declaration").autodiscover()
