"""What tools, resources and prompts share when a decorator declares them: where they are kept, what is checked.

Everything that can be wrong with a declaration is an `InvalidDeclaration` while its module is imported. An app's
declarations live in its `mcp_tools.py`, found like `admin.py`.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

import mcp_types
from django.utils.module_loading import autodiscover_modules
from pydantic import BaseModel

from mcp_app.auth.access import Access
from mcp_app.catalogue.blocks import is_dated
from mcp_app.catalogue.errors import InvalidDeclaration, InvalidForm
from mcp_app.catalogue.forms import Schema, requested_schema
from mcp_app.protocol.formats import is_icon_source, is_meta_key

MODULE: Final = "mcp_tools"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_PERMISSION: Final = re.compile(r"\w+\.\w+")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
"""OAuth's scope-token (RFC 6749, section 3.3)."""


class UnusableOptionError(ValueError):
    """What a decorator was given cannot be offered; the message says what to change."""


class Declared(Protocol):
    """What every registry keeps."""

    @property
    def location(self) -> str:
        """Module and qualified name of the function."""


D = TypeVar("D", bound=Declared)

_registries: list["Registry[Any]"] = []


class Registry(Generic[D]):
    """The declarations of one kind in this process, by name or URI. `error` is raised for what cannot be declared."""

    def __init__(self, kind: str, error: type[InvalidDeclaration]) -> None:
        self._kind = kind
        self._error = error
        self._declared: dict[str, D] = {}
        _registries.append(self)

    @property
    def declared(self) -> Mapping[str, D]:
        return MappingProxyType(self._declared)

    def add(self, key: str, declared: D) -> None:
        """Keep a declaration, unless another has its name."""
        if (other := self._declared.get(key)) is not None:
            raise self._error(
                f"Two {self._kind}s are named {key!r}: {other.location} and {declared.location}; "
                "give one of them another name."
            )
        self._declared[key] = declared

    def location_of(self, function: object) -> str:
        """Module and qualified name of a function that may be declared."""
        if not inspect.isfunction(function):
            raise self._error(f"Only functions can be {self._kind}s, not {function!r}.")
        location = f"{function.__module__}.{function.__qualname__}"
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise self._error(f"{location} is a generator; a {self._kind} returns its result.")
        return location

    @contextmanager
    def explain(self, key: str, location: str) -> Iterator[None]:
        """Turn what is found wrong inside the block into an error that names what is declared, and where."""
        try:
            yield
        except ValueError as error:  # pydantic's and those of unusable signatures, schemas and options among them
            problem = str(error).rstrip(".")
            raise self._error(f"The {self._kind} {key!r} ({location}) cannot be offered: {problem}.") from error


def autodiscover() -> None:
    """Import `mcp_tools` of every installed app; a second call finds nothing new."""
    autodiscover_modules(MODULE)


@contextmanager
def isolated_registries() -> Iterator[None]:
    """For tests: empty registries of every kind inside the block, the former ones after it. Not for concurrent use."""
    former = [(registry, registry._declared) for registry in _registries]
    for registry in _registries:
        registry._declared = {}
    try:
        yield
    finally:
        for registry, declared in former:
            registry._declared = declared


def spoken(name: str) -> str:
    """A name as words: the description of what has no other."""
    return re.sub(r"[_.-]+", " ", name).strip().capitalize() or name


def is_name(text: str) -> bool:
    """Whether a tool, a prompt or a queue may be named so: 1 to 128 of the characters A-Z a-z 0-9 _ . -"""
    return _NAME.fullmatch(text) is not None


def check_name(name: str) -> None:
    if not is_name(name):
        raise UnusableOptionError("a name has 1 to 128 of the characters A-Z a-z 0-9 _ . -")


def check_icons(icons: Sequence[mcp_types.Icon]) -> None:
    if not all(is_icon_source(icon.src) for icon in icons):
        raise UnusableOptionError("an icon's src begins with https:// or data:")


def check_annotations(annotations: object, expected: type[BaseModel]) -> None:
    if annotations is not None and not isinstance(annotations, expected):
        raise UnusableOptionError(f"annotations is a mcp_types.{expected.__name__}")
    if isinstance(annotations, mcp_types.Annotations) and not is_dated(annotations):
        raise UnusableOptionError("last_modified is a time as ISO 8601 has it, as 2026-01-31T15:00:58Z")


def check_forms(asks: Sequence[Schema]) -> None:
    try:
        for schema in asks:
            requested_schema(schema)
    except InvalidForm as error:
        raise UnusableOptionError(str(error)) from error


def check_meta(meta: Mapping[str, Any] | None) -> None:
    try:
        json.dumps(dict(meta or {}), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UnusableOptionError("meta must be plain, finite JSON") from error
    if unusable := [key for key in meta or {} if not is_meta_key(key)]:
        raise UnusableOptionError(
            f"{unusable[0]!r} is no key of meta: it is a name, perhaps after a domain of yours in reverse, as "
            "com.example/team, whose second label is neither mcp nor modelcontextprotocol"
        )


def access_of(
    permissions: Sequence[str], groups: Sequence[str], scopes: Sequence[str], endpoints: Sequence[str]
) -> Access:
    """What a decorator's options say is needed. Raises `UnusableOptionError`."""
    for option, names in (
        ("permissions", permissions),
        ("groups", groups),
        ("scopes", scopes),
        ("endpoints", endpoints),
    ):
        if isinstance(names, str):
            raise UnusableOptionError(f"{option} is a list of names, not one of them")
    if unusable := [name for name in permissions if not _PERMISSION.fullmatch(name)]:
        raise UnusableOptionError(f"a permission is named app_label.codename, not {unusable[0]!r}")
    if unusable := [name for name in scopes if not _SCOPE.fullmatch(name)]:
        raise UnusableOptionError(f"a scope has no space, quote or backslash: {unusable[0]!r}")
    return Access(tuple(permissions), tuple(groups), tuple(scopes), tuple(endpoints))


def wire_members(
    *,
    icons: Sequence[mcp_types.Icon] = (),
    annotations: BaseModel | None = None,
    meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Those of the common members of Tool, Resource, ResourceTemplate and Prompt objects that were given."""
    members: dict[str, Any] = {}
    if annotations is not None:
        members["annotations"] = _wire(annotations)
    if icons:
        members["icons"] = [_wire(icon) for icon in icons]
    if meta is not None:
        members["_meta"] = dict(meta)
    return members


def _wire(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
