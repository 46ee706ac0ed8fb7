"""Find each use in `mcp_app` of a name that another project does not document.

A name counts once for each module that uses it. This module finds

- attributes with a leading underscore that this app does not define, or that a class of this app shares with a base
  class of another project;
- names that are imported from a module of Celery, kombu, billiard or Daphne that their reference does not describe.

It cannot find undocumented attributes without an underscore. `docs/project/upstream.md` lists the known ones.
"""

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import mcp_app

ROOT: Final = Path(mcp_app.__file__).parent

DOCUMENTED_NAMES: Final = frozenset({
    "_base_manager", "_default_manager", "_meta", "_state",  # of Django's models
    "_request",  # of Django REST framework's requests
    "_current_frames", "_exit", "_getframe",  # of Python
    # Methods that a kombu transport must implement: kombu.transport.virtual.AbstractChannel
    "_delete", "_get", "_has_queue", "_new_queue", "_purge", "_put", "_size",
})  # fmt: skip
DOCUMENTED_MODULES: Final = {
    # docs/reference of both; and of celery.worker.control, the page "Writing your own remote control commands"
    "celery": frozenset({
        "celery", "celery.app", "celery.app.defaults", "celery.bootsteps", "celery.exceptions", "celery.signals",
        "celery.worker", "celery.worker.consumer", "celery.worker.control", "celery.worker.request",
        "celery.worker.state",
    }),
    "kombu": frozenset({
        "kombu", "kombu.asynchronous", "kombu.connection", "kombu.exceptions", "kombu.messaging", "kombu.pools",
        "kombu.serialization", "kombu.transport", "kombu.transport.virtual", "kombu.utils.json",
    }),
    "billiard": frozenset(),
    "daphne": frozenset(),
}  # fmt: skip
NO_SITE: Final = frozenset({"mcp_app.testing.live_settings", "mcp_app.testing.plugin"})
"""Modules that a test cannot import."""


class Use(NamedTuple):
    """A name of another project, without its owner, and the module of this app that uses it, without `mcp_app.`."""

    name: str
    module: str


def uses() -> set[Use]:
    """Return every use that can be found."""
    modules = {_name(path): ast.parse(path.read_text()) for path in _sources()}
    defined = {module: set(_definitions(tree)) for module, tree in modules.items()}
    imports = {module: _imports(tree) for module, tree in modules.items()}
    found = set()
    for module, tree in modules.items():
        inherited: set[str] = set().union(*(defined[each] for each in _reached(module, imports)))
        names = {*_foreign_attributes(tree, defined[module], inherited), *_internal_imports(tree)}
        if module not in NO_SITE:
            names |= set(_shared_with_bases(module, tree))
        found |= {Use(name, module.removeprefix("mcp_app.")) for name in names - DOCUMENTED_NAMES}
    return found


def names_in(module: str) -> set[str]:
    """Return every name, attribute and string in the source of a module."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    tree = ast.parse((path if path.exists() else ROOT / module.replace(".", "/") / "__init__.py").read_text())
    found: set[str] = set()
    for node in _nodes(tree):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.alias):
            found.add(node.name)
        elif text := _text(node):
            found.add(text)
    return found


def _sources() -> Iterator[Path]:
    return (path for path in ROOT.rglob("*.py") if "migrations" not in path.parts)


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_private(name: str) -> bool:
    return name.isidentifier() and name.startswith("_") and not name.startswith("__") and name != "_"


def _definitions(tree: ast.AST) -> Iterator[str]:
    """Return the names that a module defines: functions, classes, variables, and attributes that it assigns."""
    for node in _nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            yield node.attr


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _imports(tree: ast.Module) -> set[str]:
    froms = [node for node in _nodes(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {name for node in froms for name in (node.module, *(f"{node.module}.{a.name}" for a in node.names)) if name}


def _reached(module: str, imports: dict[str, set[str]]) -> set[str]:
    """Return the modules of this app that a module imports, directly or indirectly."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        new = (imports[waiting.pop()] & imports.keys()) - seen
        seen |= new
        waiting += new
    return seen


def _foreign_attributes(tree: ast.Module, own: set[str], inherited: set[str]) -> Iterator[str]:
    """Yield foreign names after a dot, or in calls of `getattr` and similar functions.

    On `self`, a name that a base class may define belongs to this app.
    """
    for node in _nodes(tree):
        if isinstance(node, ast.Attribute):
            name, ours = node.attr, own | inherited if _is_self(node.value) else own
        elif isinstance(node, ast.Call) and _called(node) in ("getattr", "hasattr", "setattr", "delattr"):
            name, ours = _text(node.args[1]), own
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call) and _called(node.value) == "vars":
            name, ours = _text(node.slice), own
        else:
            continue
        if _is_private(name) and name not in ours:
            yield name


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _internal_imports(tree: ast.Module) -> Iterator[str]:
    for node in _nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            documented = DOCUMENTED_MODULES.get(node.module.split(".")[0])
            is_internal = documented is not None and node.module not in documented
            yield from (a.name for a in node.names if is_internal or (_is_private(a.name) and _is_foreign(node.module)))


def _is_foreign(module: str) -> bool:
    return module.split(".")[0] != ROOT.name


def _shared_with_bases(module: str, tree: ast.Module) -> Iterator[str]:
    """Private names that a class here defines or uses, and a base class of another project defines."""
    for node in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        bases = getattr(importlib.import_module(module), node.name).__mro__[1:]
        foreign = [base for base in bases if _is_foreign(base.__module__) and base.__module__ != "builtins"]
        theirs = frozenset().union(*map(_names_of, foreign))
        used = {each.attr for each in _nodes(node) if isinstance(each, ast.Attribute) and _is_self(each.value)}
        yield from (name for name in (used | set(_definitions(node))) & theirs if _is_private(name))


@cache
def _names_of(kind: type) -> frozenset[str]:
    """Return the names that one class defines, and the names that its methods set or read on its objects."""
    functions = [getattr(each, "__func__", getattr(each, "fget", each)) for each in vars(kind).values()]
    codes = [each.__code__ for each in functions if hasattr(each, "__code__")]
    return frozenset(vars(kind)).union(*(code.co_names for code in codes))


@cache
def _nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))
