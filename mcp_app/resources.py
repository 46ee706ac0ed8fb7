"""Public API for resources, and for code that changes what they return.

Import it in an app's `mcp_tools.py`::

    from mcp_app.resources import resource

    @resource("notes://{day}")
    def note(day: date):
        "The note of a day."
        return Note.objects.get(day=day).text

The implementation is in `catalogue`.
"""

from mcp_app.catalogue.changes import notify_resource_updated, notify_resources_list_changed
from mcp_app.catalogue.content.blocks import Audio, Image
from mcp_app.catalogue.errors import CannotAsk, ResourceError, ResourceNotFound
from mcp_app.catalogue.input.asking import InputRequired
from mcp_app.catalogue.input.questions import Answer, Form, Link, Roots, Sampling
from mcp_app.catalogue.input.read_context import ReadContext
from mcp_app.catalogue.resources import resource

__all__ = [
    "Answer",
    "Audio",
    "CannotAsk",
    "Form",
    "Image",
    "InputRequired",
    "Link",
    "ReadContext",
    "ResourceError",
    "ResourceNotFound",
    "Roots",
    "Sampling",
    "notify_resource_updated",
    "notify_resources_list_changed",
    "resource",
]
