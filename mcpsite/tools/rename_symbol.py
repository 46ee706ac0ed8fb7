"""`rename_symbol`: renames an identifier in all of a project's Python files, or in none.

First the new content of every file is made, checked and staged; a cancellation during this step changes nothing. Then
all files are replaced in a shield, so that a cancellation takes effect only when everything is renamed. The policy is
cooperative, because a kill could leave half of the files renamed.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from mcp_app.tools import CancelPolicy, ToolContext, ToolError, tool
from mcpsite.access import require_staff
from mcpsite.tools import replacing, sources
from mcpsite.tools.occurrences import UNREADABLE, Identifier, Occurrence, check_identifier, may_contain, occurrences
from mcpsite.tools.projects import ProjectName, link_out, locate, python_files

MAX_LISTED = 500
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)


class RenamedFile(BaseModel):
    """A file that contains the name."""

    file: str = Field(description="relative to the project")
    occurrences: int


class Renaming(BaseModel):
    """The occurrences that were renamed, or would be renamed in a dry run."""

    project: str
    old: str
    new: str
    applied: bool = Field(description="false: it was a dry run")
    files_searched: int
    files_renamed: int
    occurrences: int = Field(description="in all files")
    files: list[RenamedFile] = Field(description=f"the files in which the name stands, the first {MAX_LISTED}")


@dataclass(frozen=True, slots=True)
class _Change:
    path: Path
    name: str
    before: bytes
    after: bytes
    occurrences: int


@tool(title="Rename a symbol", cancel=CancelPolicy.COOPERATIVE, time_limit=600, annotations=CHANGES)
def rename_symbol(
    project: ProjectName,
    old: Identifier,
    new: Identifier,
    ctx: ToolContext,
    dry_run: Annotated[bool, Field(description="only say what would be renamed")] = False,
) -> Renaming:
    """Rename a Python identifier in all files of a project on this server. Only staff may call this.

    Every name with this spelling is renamed, whatever it refers to. Strings and comments are not changed. Either all
    files are changed or none. The call fails if the project already uses the new name. Hidden folders and virtual
    environments are skipped.
    """
    require_staff(ctx)
    old, new = check_identifier(old), check_identifier(new)
    if old == new:
        raise ToolError("The old and the new name are the same.")
    folder = locate(project)
    with replacing.alone(folder):
        files = _files(folder)
        changes = _changes(ctx, folder, files, old, new)
        renaming = Renaming(
            project=project,
            old=old,
            new=new,
            applied=not dry_run,
            files_searched=len(files),
            files_renamed=len(changes),
            occurrences=sum(change.occurrences for change in changes),
            files=[RenamedFile(file=change.name, occurrences=change.occurrences) for change in changes[:MAX_LISTED]],
        )
        if not dry_run:
            _apply(ctx, folder, changes, renaming)
    return renaming


def _files(folder: Path) -> list[Path]:
    if (link := link_out(folder)) is not None:
        raise ToolError(
            f"The link {link} leads out of the project: what is there would not be renamed. Remove it first."
        )
    return list(python_files(folder))


def _changes(ctx: ToolContext, folder: Path, files: Sequence[Path], old: str, new: str) -> list[_Change]:
    """Return the changes of a renaming. Raises `ToolError` if a file cannot be changed."""
    changes = []
    for number, path in enumerate(files, 1):
        name = path.relative_to(folder).as_posix()
        try:
            change = _change(path, name, old, new)
        except (*UNREADABLE, OSError) as error:
            why = type(error).__name__
            raise ToolError(f"{name} cannot be read or written as Python ({why}), so nothing is renamed.") from error
        if change is not None:
            changes.append(change)
        ctx.progress(number, len(files), f"read {name}")
    return changes


def _change(path: Path, name: str, old: str, new: str) -> _Change | None:
    source = sources.read(path)
    taken = next(occurrences(source.text, new), None) if may_contain(source.text, new) else None
    if taken is not None:
        raise ToolError(f"{name}:{taken.line} uses the name {new!r} already, so nothing is renamed. Give another.")
    found = list(occurrences(source.text, old)) if may_contain(source.text, old) else []
    if not found:
        return None
    after = source.encoded(_renamed(source.text, found, new))
    ast.parse(after)
    return _Change(path, name, source.data, after, len(found))


def _renamed(text: str, found: Sequence[Occurrence], new: str) -> str:
    lines = text.split("\n")
    for place in reversed(found):
        line = lines[place.line - 1]
        lines[place.line - 1] = f"{line[: place.column]}{new}{line[place.column + place.length :]}"
    return "\n".join(lines)


def _apply(ctx: ToolContext, folder: Path, changes: Sequence[_Change], renaming: Renaming) -> None:
    with replacing.staging(folder) as place:
        replacements = []
        for change in changes:
            ctx.check()
            replacements.append(replacing.stage(place, change.path, change.before, change.after))
        ctx.check()
        with ctx.shield():
            replacing.replace_all(replacements, lambda number: _report(ctx, renaming, number))
            ctx.partial_result = renaming


def _report(ctx: ToolContext, renaming: Renaming, number: int) -> None:
    before = renaming.files_searched
    ctx.progress(before + number, before + renaming.files_renamed, f"renamed in {number} files")
