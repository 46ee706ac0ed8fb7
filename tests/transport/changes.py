"""Changes a tool, a prompt and a resource, so that streams are notified."""

from mcp_app import databases
from mcp_app.catalogue import tool_rows
from mcp_app.conf import settings
from mcp_app.models import Tool
from mcp_app.prompts import notify_prompts_list_changed
from mcp_app.resources import notify_resource_updated, notify_resources_list_changed


def change(name: str) -> None:
    """Commit a change of the tool, the prompt and the resource of this name."""
    with databases.atomic():
        notify_resource_updated(f"{name}://one", using=settings.DATABASE)
        notify_resources_list_changed(f"{name}://one", using=settings.DATABASE)
        notify_prompts_list_changed(name, using=settings.DATABASE)
        tool_rows.set_enabled(name, enabled=False)
        tool_rows.set_enabled(name, enabled=True)
        Tool.objects.get(pk=name).save()
