"""The resources that the official conformance suite (0.2.0-alpha.12, revision 2026-07-28) expects a server to offer.

URIs and texts are the suite's.
"""

from mcp_app.resources import Image, resource
from tests.everything import samples


@resource("test://static-text", title="Static text", mime_type="text/plain")
def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@resource("test://static-binary", title="Static image", mime_type="image/png", size=len(samples.PNG))
def static_binary() -> Image:
    """An image that never changes."""
    return Image(samples.PNG, "image/png")


@resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> dict[str, object]:
    """Data by its id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """A resource to subscribe to."""
    return "Watched resource content"
