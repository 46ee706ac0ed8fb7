"""Finds the source files of installed packages, by their import or distribution name.

Packages are not imported. Only site-packages and the standard library are searched, so that the site's own code cannot
be read.
"""

import sysconfig
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from mcp_app.tools import ToolError
from mcpsite.tools.projects import python_files

PackageName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$", description="an installed package, such as `django` or `email`")
]

_LIBRARIES: Final = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib")]


def source_files(package: str) -> Iterator[tuple[Path, str]]:
    """Return the Python files of a package, with their names relative to the folder that contains the package.

    Raises `ToolError` if the package is not installed, or not as Python source.
    """
    places = [place.resolve() for place in _by_import_name(package) or _by_distribution(package)]
    places = [place for place in places if any(place.is_relative_to(library) for library in _LIBRARIES)]
    if not places:
        raise ToolError(f"No package {package!r} with Python source is installed on this server.")
    return ((path, path.relative_to(place.parent).as_posix()) for place in places for path in _files(place))


def _files(place: Path) -> Iterator[Path]:
    return python_files(place) if place.is_dir() else iter([place])


def _by_import_name(name: str) -> list[Path]:
    if not name.isidentifier():  # a name with dots would import its parent packages
        return []
    try:
        spec = util.find_spec(name)
    except ValueError:  # a module that was run or made, not imported
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(location) for location in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.origin and spec.origin.endswith(".py") else []


def _by_distribution(name: str) -> list[Path]:
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return []
    sources = (file for file in distribution.files or () if file.suffix == ".py" and file.parts[0] != "..")
    return [Path(str(distribution.locate_file(top))) for top in sorted({file.parts[0] for file in sources})]
