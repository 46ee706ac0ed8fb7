"""The registries of tools, resources and prompts, and the checks that their decorators share.

A declaration that cannot be offered raises an `InvalidDeclaration` while its module is imported. An
app's declarations live in its `mcp_tools.py`, which is found in the way of `admin.py`.
"""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

import mcp_types
from django.utils.module_loading import autodiscover_modules
from pydantic import BaseModel

from mcp_app.auth.principal import Access, Principal, user_of
from mcp_app.catalogue.content.blocks import is_dated
from mcp_app.catalogue.errors import InsufficientScope, InvalidDeclaration, InvalidForm
from mcp_app.catalogue.input.forms import Schema, requested_schema
from mcp_app.protocol.formats import is_icon_source, is_meta_key

MODULE: Final = "mcp_tools"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_PERMISSION: Final = re.compile(r"\w+\.\w+")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
"""OAuth's scope-token (RFC 6749, section 3.3)."""


class UnusableOptionError(ValueError):
    """An option of a decorator cannot be used. The message says what to change."""


class Declared(Protocol):
    """A declaration that a registry can hold."""

    @property
    def location(self) -> str:
        """The module and qualified name of the function."""


D = TypeVar("D", bound=Declared)

_registries: list["Registry[Any]"] = []


class Registry(Generic[D]):
    """The declarations of one kind in this process, by name or URI.

    `error` is the exception class for declarations that are refused.
    """

    def __init__(self, kind: str, error: type[InvalidDeclaration]) -> None:
        self._kind = kind
        self._error = error
        self._declared: dict[str, D] = {}
        self.declared: Mapping[str, D] = MappingProxyType(self._declared)
        _registries.append(self)

    def add(self, key: str, declared: D) -> None:
        """Add a declaration. Raises `error` if another one has the same name."""
        if (other := self._declared.get(key)) is not None:
            raise self._error(
                f"Two {self._kind}s have the name {key!r}: {other.location} and {declared.location}; "
                "rename one of them."
            )
        self._declared[key] = declared

    def location_of(self, function: object) -> str:
        """Return the module and qualified name of a function.

        Raises `error` if it cannot be declared.
        """
        if not inspect.isfunction(function):
            raise self._error(f"Only functions can be {self._kind}s, not {function!r}.")
        location = f"{function.__module__}.{function.__qualname__}"
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise self._error(f"{location} is a generator; a {self._kind} returns its result.")
        return location

    @contextmanager
    def explain(self, key: str, location: str) -> Iterator[None]:
        """Turn a ValueError from the block into an `error` that names the declaration."""
        try:
            yield
        except ValueError as error:  # from pydantic, and unusable signatures, schemas and options
            problem = str(error).rstrip(".")
            raise self._error(f"The {self._kind} {key!r} ({location}) cannot be offered: {problem}.") from error


def autodiscover() -> None:
    """Import `mcp_tools` of every installed app. A second call changes nothing."""
    autodiscover_modules(MODULE)


@contextmanager
def isolated_registries() -> Iterator[None]:
    """Empty the registries of every kind for the block, and restore them afterwards.

    For tests. Not safe for concurrent use.
    """
    former = [(registry, dict(registry.declared)) for registry in _registries]
    for registry in _registries:
        registry._declared.clear()
    try:
        yield
    finally:
        for registry, declared in former:
            registry._declared.clear()
            registry._declared.update(declared)


def spoken(name: str) -> str:
    """Turn a name into words: the description of a declaration that has no other."""
    return re.sub(r"[_.-]+", " ", name).strip().capitalize() or name


def is_name(text: str) -> bool:
    """Return whether `text` may name a tool, a prompt or a queue: 1 to 128 of A-Z a-z 0-9 _ . -"""
    return _NAME.fullmatch(text) is not None


def check_name(name: str) -> None:
    if not is_name(name):
        raise UnusableOptionError("a name must have 1 to 128 characters from A-Z a-z 0-9 _ . -")


def check_icons(icons: Sequence[mcp_types.Icon]) -> None:
    if not all(is_icon_source(icon.src) for icon in icons):
        raise UnusableOptionError("the src of an icon must begin with https:// or data:")


def check_annotations(annotations: object, expected: type[BaseModel]) -> None:
    if annotations is not None and not isinstance(annotations, expected):
        raise UnusableOptionError(f"annotations must be of type mcp_types.{expected.__name__}")
    if isinstance(annotations, mcp_types.Annotations) and not is_dated(annotations):
        raise UnusableOptionError("last_modified must be an ISO 8601 time, such as 2026-01-31T15:00:58Z")


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
            f"{unusable[0]!r} is not a valid key of meta: a key is a name, optionally after a "
            "reversed domain of yours and "
            "a slash, such as com.example/team; its second label must not be mcp or modelcontextprotocol"
        )


def access_of(
    permissions: Sequence[str], groups: Sequence[str], scopes: Sequence[str], endpoints: Sequence[str]
) -> Access:
    """Make an `Access` from the options of a decorator. Raises `UnusableOptionError`."""
    for option, names in (
        ("permissions", permissions),
        ("groups", groups),
        ("scopes", scopes),
        ("endpoints", endpoints),
    ):
        if isinstance(names, str):
            raise UnusableOptionError(f"{option} must be a list of names, not a single name")
    if unusable := [name for name in permissions if not _PERMISSION.fullmatch(name)]:
        raise UnusableOptionError(f"a permission must be written as app_label.codename, not {unusable[0]!r}")
    if unusable := [name for name in scopes if not _SCOPE.fullmatch(name)]:
        raise UnusableOptionError(f"a scope must not contain spaces, quotes or backslashes: {unusable[0]!r}")
    return Access(tuple(permissions), tuple(groups), tuple(scopes), tuple(endpoints))


def wire_members(
    *,
    icons: Sequence[mcp_types.Icon] = (),
    annotations: BaseModel | None = None,
    meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the members that Tool, Resource, ResourceTemplate and Prompt objects have in common.

    Those that were not given are left out.
    """
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


class Guarded(Protocol):
    """A declaration with an `Access`."""

    @property
    def access(self) -> Access:
        """The rights that a caller must have."""


G = TypeVar("G", bound=Guarded)


def granted(declared: Iterable[G], principal: Principal) -> list[G]:
    """Return the declarations that `principal` may use, in their order.

    The user is read at most once.
    """
    each = [one for one in declared if principal.endpoint in one.access.endpoints]
    user = user_of(principal.user_id) if any(one.access.is_limited for one in each) else None
    return [one for one in each if one.access.admits(user)]


def check_scopes(access: Access, principal: Principal) -> None:
    """Raise `InsufficientScope` if the caller's token lacks a scope."""
    if missing := access.missing_scopes(principal):
        raise InsufficientScope(missing, access.scopes)
