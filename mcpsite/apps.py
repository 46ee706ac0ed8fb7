"""The example site's own app: its models, their admin, its page and its tools."""

from django.apps import AppConfig


class MCPSiteConfig(AppConfig):
    name = "mcpsite"
    verbose_name = "Example site"
