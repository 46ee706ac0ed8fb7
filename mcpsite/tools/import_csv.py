"""`import_csv`: imports contacts from CSV, in one transaction or in batches.

The report contains the number of stored lines, however the import ends. `mcpsite.contacts` reads the format.
"""

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Final, Literal, TextIO

from django.conf import settings
from django.db import OperationalError, transaction
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from mcp_app.tools import CancelPolicy, ToolContext, ToolError, tool
from mcpsite.access import require_staff
from mcpsite.contacts import KEY, ContactFile, Line, UnreadableError
from mcpsite.models import Contact

MAX_TEXT_CHARS: Final = 1_000_000
MAX_FILE_BYTES: Final = 50_000_000
MAX_BATCH: Final = 1_000
MAX_PROBLEMS: Final = 20
CHECK_EVERY: Final = 1_000
"""The number of lines that are counted between two checks for a cancellation."""

Mode = Literal["transaction", "batches"]


class Problem(BaseModel):
    """A line that cannot be imported, and why."""

    line: int = Field(description="number of the line that the record begins on; the header is line 1")
    problem: str


class Report(BaseModel):
    """The numbers of data lines that were stored and rejected. After a cancellation, the stored lines stay stored."""

    total: int = Field(description="data lines in the CSV")
    stored: int = Field(default=0, description="lines that are in the database: created + updated")
    created: int = Field(default=0, description="lines with a new e-mail address")
    updated: int = Field(default=0, description="lines whose e-mail address was known, from before or a line above")
    rejected: int = Field(default=0, description="lines that are wrong and were left out")
    problems: list[Problem] = Field(default=[], description=f"the first {MAX_PROBLEMS} of the rejected lines")

    @property
    def read(self) -> int:
        return self.stored + self.rejected


@tool(
    title="Import contacts from CSV",
    cancel=CancelPolicy.COOPERATIVE,
    time_limit=600,
    annotations=ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
    ),
)
def import_csv(
    ctx: ToolContext,
    text: Annotated[str, Field(max_length=MAX_TEXT_CHARS, description="the CSV itself; or name a file")] = "",
    file: Annotated[str, Field(max_length=255, description="name of a file in the site's uploads folder")] = "",
    mode: Annotated[
        Mode, Field(description="transaction: all lines or none; batches: what is right, some lines at a time")
    ] = "transaction",
    batch_size: Annotated[int, Field(ge=1, le=MAX_BATCH, description="lines stored at a time")] = 500,
) -> Report:
    """Import contacts from CSV into this site's database. Only staff may call this.

    The first line names the columns: email and name, and optionally company and phone. The e-mail address is the key:
    an existing contact is updated with the given columns, so importing the same CSV again changes nothing. Mode
    "transaction" stores all lines, or none if a line is wrong or the call is cancelled. Mode "batches" stores whole
    batches without their wrong lines; if the call is cancelled, the batches that are already stored stay stored.
    """
    require_staff(ctx)
    with _opened(text, file) as stream:
        try:
            contacts = ContactFile(stream)
            ctx.partial_result = Report(total=_count(ctx, contacts))
            store = _in_one_transaction if mode == "transaction" else _in_batches
            return store(ctx, contacts, batch_size)
        except UnreadableError as error:
            raise ToolError(f"{error} {_stored(ctx)}") from error
        except OperationalError as error:
            raise ToolError(f"The database is busy or away; try again later. {_stored(ctx)}") from error


def _stored(ctx: ToolContext) -> str:
    report = ctx.partial_result
    if report is None or not report.stored:
        return "Nothing was imported."
    return f"{report.stored} of {report.total} lines are imported; importing them again does no harm."


@contextmanager
def _opened(text: str, file: str) -> Iterator[TextIO]:
    if bool(text) == bool(file):
        raise ToolError("Give either the CSV as text, or the name of a file in the uploads folder.")
    if text:
        yield io.StringIO(text.removeprefix("\ufeff"), newline="")
        return
    with _upload(file).open(encoding="utf-8-sig", newline="") as stream:
        yield stream


def _upload(name: str) -> Path:
    """Return the file with that name in the uploads folder. Links and other folders are rejected."""
    path = settings.UPLOADS / name.replace("\0", "/")
    if path.resolve() != settings.UPLOADS.resolve() / path.name or path.name != name or not path.is_file():
        raise ToolError("There is no such file in the uploads folder; give the name of one that lies directly in it.")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ToolError(f"The file is larger than {MAX_FILE_BYTES} bytes; split it.")
    return path


def _count(ctx: ToolContext, contacts: ContactFile) -> int:
    """Return the number of data lines. Reads the whole file, to find broken CSV before anything is stored."""
    total = 0
    for total, _ in enumerate(contacts.cells(), 1):
        if total % CHECK_EVERY == 0:
            ctx.check()
    return total


def _in_one_transaction(ctx: ToolContext, contacts: ContactFile, batch_size: int) -> Report:
    report: Report = ctx.partial_result
    with ExitStack() as whole:
        whole.enter_context(transaction.atomic())
        for batch in _batches(ctx, contacts, batch_size):
            report = _with_batch(report, batch, contacts.columns)
            ctx.progress(report.read, report.total, f"{report.read} of {report.total} lines read")
        if report.rejected:
            raise ToolError(_refusal(report))
        with ctx.shield():  # shielded, so that committed lines are reported even if an administrator allows interrupts
            whole.close()
            ctx.partial_result = report
    return report


def _in_batches(ctx: ToolContext, contacts: ContactFile, batch_size: int) -> Report:
    report: Report = ctx.partial_result
    for batch in _batches(ctx, contacts, batch_size):
        with ctx.shield():  # as above
            report = ctx.partial_result = _with_batch(report, batch, contacts.columns)
            ctx.progress(report.read, report.total, f"{report.stored} of {report.total} lines stored")
    return report


def _batches(ctx: ToolContext, contacts: ContactFile, size: int) -> Iterator[list[Line]]:
    """Yield the lines in batches. Raise `ToolCancelled` between two batches, but not after the last one."""
    lines = contacts.lines()
    while batch := list(islice(lines, size)):
        ctx.check()
        yield batch


def _with_batch(report: Report, batch: list[Line], columns: tuple[str, ...]) -> Report:
    """Store the correct lines of a batch, all or none, and return the updated report."""
    contacts = [line.contact for line in batch if line.contact is not None]
    wrong = [Problem(line=line.number, problem=line.problem) for line in batch if line.contact is None]
    created = _store(contacts, columns)
    return report.model_copy(
        update={
            "stored": report.stored + len(contacts),
            "created": report.created + created,
            "updated": report.updated + len(contacts) - created,
            "rejected": report.rejected + len(wrong),
            "problems": (report.problems + wrong)[:MAX_PROBLEMS],
        }
    )


def _store(contacts: list[Contact], columns: tuple[str, ...]) -> int:
    """Create or update contacts, by the last line with each address. Return the number of new ones."""
    latest = {contact.email: contact for contact in contacts}
    with transaction.atomic():
        known = set(Contact.objects.filter(email__in=latest).values_list(KEY, flat=True))
        Contact.objects.bulk_create(
            latest.values(),
            update_conflicts=True,
            unique_fields=[KEY],
            update_fields=[*(column for column in columns if column != KEY), "updated_at"],
        )
    return len(latest.keys() - known)


def _refusal(report: Report) -> str:
    lines = [f"Line {each.line}: {each.problem}" for each in report.problems]
    if (more := report.rejected - len(lines)) > 0:
        lines.append(f"And {more} more.")
    return "\n".join([f"Nothing was imported: {report.rejected} of {report.total} lines are wrong.", *lines])
