"""`mcp install` and `django-mcp-app install`: find the two edits that add this app to a site, and make or undo them.

The site's code is only read, not imported, because a project may need its environment to be imported.

    settings   the file that assigns `INSTALLED_APPS`, followed from the settings module through `from … import *`
    asgi       the module of `ASGI_APPLICATION`; else `asgi.py`, beside `wsgi.py` or in the project's package
"""

import argparse
import ast
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

APP: Final = "mcp_app"
_SETTINGS_MODULE: Final = re.compile(r"""DJANGO_SETTINGS_MODULE["'],\s*["']([\w.]+)["']""")

Say = Callable[[str], object]


class NoSiteError(Exception):
    """The site cannot be edited. The message explains what to do by hand."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines for the end of a file."""

    file: Path
    lines: str
    is_new_file: bool = False
    is_needed: bool = True
    """False if the site's code has the same effect already, written in another way."""

    @property
    def is_made(self) -> bool:
        return self.file.is_file() and self.lines in self.file.read_text()

    def make(self) -> None:
        """Append the lines, or create the file."""
        if self.is_needed and not self.is_made:
            text = self.file.read_text().rstrip("\n") + "\n\n" if self.file.exists() else ""
            self.file.write_text(text + self.lines)

    def undo(self) -> None:
        """Remove the lines, and the file if nothing else is in it."""
        if self.is_made:
            before, _, after = self.file.read_text().partition(self.lines)
            if (rest := before.rstrip("\n") + "\n" + after).strip():
                self.file.write_text(rest)
            else:
                self.file.unlink()


def run(root: Path, say: Say, *, write: bool = False, undo: bool = False) -> None:
    """Print, make or undo the edits. `root` is the folder with the site's `manage.py`.

    Raises `NoSiteError`.
    """
    for edit in find_edits(root):
        where = edit.file.relative_to(root)
        if undo:
            say(f"{where}: removed." if edit.is_made else f"{where}: there was nothing to remove.")
            edit.undo()
        elif edit.is_made or not edit.is_needed:
            say(f"{where}: nothing to add.")
        elif write:
            edit.make()
            say(f"{where}: added\n{_indented(edit.lines)}")
        else:
            say(f"In {where}, {'a new file' if edit.is_new_file else 'at the end'}:\n{_indented(edit.lines)}")
    if not undo:
        say("Then run: python manage.py check && python manage.py migrate && python manage.py mcp serve")


def find_edits(root: Path) -> list[Edit]:
    """Return the edits for the settings and for the ASGI application. Raises `NoSiteError`."""
    module = _settings_module(root)
    assignments: dict[str, tuple[Path, ast.expr]] = {}
    for file in _settings_files(root, module):
        for name, value in _assigned(file):
            # `INSTALLED_APPS = ["first", *INSTALLED_APPS]` in `local.py` only extends the list of `base.py`.
            if name not in assignments or _names(assignments[name][1], name):
                assignments[name] = (file, value)
    if "INSTALLED_APPS" not in assignments:
        raise NoSiteError(f"INSTALLED_APPS was not found in {module}. Add there: INSTALLED_APPS += [{APP!r}]")
    file, value = assignments["INSTALLED_APPS"]
    added = f'("{APP}",)' if isinstance(value, ast.Tuple) else f'["{APP}"]'
    is_needed = not any(_adds_app(file) for file in _settings_files(root, module))
    edits = [Edit(file, f"INSTALLED_APPS += {added}\n", is_needed=is_needed)]
    return [*edits, _asgi_edit(root, module, {name: _text(value) for name, (_, value) in assignments.items()})]


def _asgi_edit(root: Path, settings: str, values: dict[str, str]) -> Edit:
    package, is_usual, _ = values.get("WSGI_APPLICATION", "").partition(".wsgi.")
    if not is_usual:
        package = values.get("ROOT_URLCONF", settings).partition(".")[0]
    module, _, name = values.get("ASGI_APPLICATION", f"{package}.asgi.application").rpartition(".")
    lines = f"from mcp_app.routing import mcp_application\n\n{name} = mcp_application({name})\n"
    file = root.joinpath(*module.split(".")).with_suffix(".py")
    wsgi = file.with_name("wsgi.py")
    if wsgi.is_file() and (found := _SETTINGS_MODULE.search(wsgi.read_text())):
        settings = found[1]  # `manage.py` may name settings for development
    first = (
        "import os\n\nfrom django.core.asgi import get_asgi_application\n\n"
        f'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "{settings}")\n{name} = get_asgi_application()\n\n'
    )
    if file.exists():
        is_ours = file.read_text() == first + lines
        is_needed = "mcp_app.routing" not in file.read_text()
        return Edit(file, first + lines if is_ours else lines, is_needed=is_needed)
    if not file.parent.is_dir():
        raise NoSiteError(f"The module {module} was not found. Add to your ASGI application:\n{_indented(lines)}")
    return Edit(file, first + lines, is_new_file=True)


def _settings_module(root: Path) -> str:
    manage = root / "manage.py"
    if not manage.is_file():
        raise NoSiteError(f"There is no manage.py in {root}. Change to the folder of your project.")
    if named := os.environ.get("DJANGO_SETTINGS_MODULE"):
        return named
    if (found := _SETTINGS_MODULE.search(manage.read_text())) is None:
        raise NoSiteError("manage.py names no settings module. Set DJANGO_SETTINGS_MODULE.")
    return found[1]


def _settings_files(root: Path, module: str) -> Iterator[Path]:
    """Yield the file of a settings module, then those from which it imports everything."""
    file = root.joinpath(*module.split(".")).with_suffix(".py")
    package = module.rpartition(".")[0]
    if not file.is_file():
        file, package = root.joinpath(*module.split("."), "__init__.py"), module
    if not file.is_file():
        raise NoSiteError(f"The settings module {module} was not found below {root}.")
    yield file
    for statement in ast.parse(file.read_text()).body:
        if isinstance(statement, ast.ImportFrom) and any(each.name == "*" for each in statement.names):
            parents = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
            yield from _settings_files(root, ".".join([*parents, *filter(None, [statement.module])]))


def _assigned(file: Path) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a module assigns, with their values."""
    for statement in ast.parse(file.read_text()).body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            yield statement.target.id, statement.value


def _adds_app(file: Path) -> bool:
    """Return whether a module assigns to `INSTALLED_APPS`, or adds to it, something with this app."""
    statements = [
        each
        for each in ast.parse(file.read_text()).body
        if isinstance(each, ast.Assign | ast.AnnAssign | ast.AugAssign)
    ]
    parts = [list(ast.walk(each)) for each in statements if _names(each, "INSTALLED_APPS")]
    return any(isinstance(each, ast.Constant) and each.value == APP for walked in parts for each in walked)


def _names(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


def _text(value: ast.expr) -> str:
    return str(value.value) if isinstance(value, ast.Constant) else ""


def _indented(lines: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in lines.splitlines(keepends=True)).rstrip("\n")


def main() -> None:
    """Run `django-mcp-app install` in the folder of a project, before the app is in `INSTALLED_APPS`."""
    parser = argparse.ArgumentParser(prog="django-mcp-app", description="Add mcp_app to a Django site.")
    install = parser.add_subparsers(dest="command", required=True, metavar="COMMAND").add_parser(
        "install", help="print the two edits that add mcp_app to the site in this folder"
    )
    add_options(install)
    options = parser.parse_args()
    try:
        run(Path.cwd(), lambda line: sys.stdout.write(f"{line}\n"), write=options.write, undo=options.undo)
    except NoSiteError as error:
        raise SystemExit(str(error)) from None


def add_options(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--write", action="store_true", help="make the edits")
    chosen.add_argument("--undo", action="store_true", help="remove them")
