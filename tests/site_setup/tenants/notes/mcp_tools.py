import time

from asgiref.sync import sync_to_async
from django_tenants.utils import schema_context

from mcp_app.resources import ReadContext, resource
from mcp_app.tools import ToolContext, tool
from notes.models import Note


@tool
def add_note(text: str) -> list[str]:
    """Add a note, and return all notes."""
    Note.objects.create(text=text)
    return _notes()


@tool
async def read_notes(ctx: ToolContext) -> list[str]:
    """Return all notes."""
    return await sync_to_async(_notes_of)(ctx.principal.issuer)


@tool
def add_slowly(ctx: ToolContext) -> None:
    """Add a note every 50 ms."""
    for number in range(1000):
        Note.objects.create(text=f"number {number}")
        ctx.progress(number)
        time.sleep(0.05)


@resource("notes://all")
def notes(visit: ReadContext) -> str:
    """Return all notes."""
    return ", ".join(_notes_of(visit.principal.issuer))


def _notes() -> list[str]:
    return list(Note.objects.order_by("pk").values_list("text", flat=True))


def _notes_of(schema: str) -> list[str]:
    with schema_context(schema):
        return _notes()
