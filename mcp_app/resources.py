"""What a site's `mcp_tools.py` needs for resources: `from mcp_app.resources import resource, ResourceNotFound, Visit`.

The door for resource authors, and for code that changes what they offer. It owns nothing: the parts live in
`catalogue`.
"""

from mcp_app.catalogue.asking import InputRequired
from mcp_app.catalogue.blocks import Audio, Image
from mcp_app.catalogue.changes import notify_resource_updated, notify_resources_list_changed
from mcp_app.catalogue.errors import CannotAsk, ResourceError, ResourceNotFound
from mcp_app.catalogue.questions import Answer, Form, Link, Roots, Sampling
from mcp_app.catalogue.resources import resource
from mcp_app.catalogue.visit import Visit

__all__ = [
    "Answer",
    "Audio",
    "CannotAsk",
    "Form",
    "Image",
    "InputRequired",
    "Link",
    "ResourceError",
    "ResourceNotFound",
    "Roots",
    "Sampling",
    "Visit",
    "notify_resource_updated",
    "notify_resources_list_changed",
    "resource",
]
