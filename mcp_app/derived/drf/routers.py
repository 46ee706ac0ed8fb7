"""`router_tools`: the viewsets that a router has registered, as tools."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from django.urls.resolvers import RegexPattern, RoutePattern

from mcp_app.catalogue.errors import InvalidTool
from mcp_app.derived.drf import viewsets
from mcp_app.derived.drf.viewsets import KeyReader, Offer

Actions: TypeAlias = Iterable[str] | Mapping[str, Mapping[str, Any]]

_GROUPS: Final = {
    "read": ("list", "retrieve"),
    "write": ("create", "partial_update"),
    "delete": ("destroy",),
}
"""The parameters that take basenames, each with the actions that it publishes."""
_NOTHING: Final[Mapping[str, Actions]] = MappingProxyType({})


class UnusableRouteError(ValueError):
    """A basename cannot be published. The message explains what to change."""


def router_tools(
    router: Any,
    /,
    *,
    read: Iterable[str] = (),
    write: Iterable[str] = (),
    delete: Iterable[str] = (),
    actions: Mapping[str, Actions] = _NOTHING,
) -> None:
    """Offer viewsets that a router has registered as tools, as `viewset_tools` does for one viewset.

    Example::

        router_tools(router, read=["book", "author"], write=["book"], actions={"book": ["shred"]})

    Only the basenames in these lists are published. None of the lists implies another one.

    - `read` (list of str): basenames whose `list` and `retrieve` are published.
    - `write` (list of str): basenames whose `create` and `partial_update` are published.
    - `delete` (list of str): basenames whose `destroy` is published.
    - `actions` (dict): basenames, each with what `viewset_tools` takes as `actions`: names of
      actions, or a mapping from these names to options of `tool`. They are published in addition;
      the options also apply to actions that another list publishes.

    An action of the first three lists is left out if the viewset does not have it. An action that
    the router does not route cannot be published.

    The tools are named after the basename. With `archived-book` they are `list_archived_books`,
    `get_archived_book`, `create_archived_book`, `update_archived_book`, `delete_archived_book` and
    `<action>_archived_book`. A basename that ends with `s` has no other plural.

    Raises `InvalidTool`, and registers nothing, if there is no such basename, if an action cannot
    be offered, or if two basenames make the same name.
    """
    lists = {"read": read, "write": write, "delete": delete}
    _check_lists({**lists, **{f"actions[{basename!r}]": names for basename, names in actions.items()}})
    named = {group: tuple(names) for group, names in lists.items()}
    registered = {basename: (prefix, viewset) for prefix, viewset, basename in router.registry}
    basenames = list(dict.fromkeys([*(name for names in named.values() for name in names), *actions]))
    if not basenames:
        raise InvalidTool("router_tools names no basename, so it would publish nothing.")
    offers: dict[str, list[Offer]] = {}
    for basename in basenames:
        if basename not in registered:
            raise InvalidTool(f"The router has no basename {basename!r}; it has {', '.join(sorted(registered))}.")
        groups = [group for group, names in named.items() if basename in names]
        prefix, viewset = registered[basename]
        try:
            routed = _routed(router, prefix, viewset)
            chosen = _chosen(routed, groups, viewsets.named_options(actions.get(basename, ())))
        except UnusableRouteError as error:
            raise InvalidTool(f"The basename {basename!r} cannot be published: {error}.") from error
        initial = {name: {**keywords, "basename": basename} for name, keywords in routed.items()}
        offers[basename] = viewsets.offers_of(
            viewset, _words(basename), chosen, initial, _key_reader(router.get_lookup_regex(viewset))
        )
    _check_names(offers)
    for found in offers.values():
        viewsets.add_tools(found)


def _check_lists(lists: Mapping[str, Any]) -> None:
    for parameter, names in lists.items():
        if isinstance(names, str):
            raise InvalidTool(f"{parameter} of router_tools must be a list of names, not a single name.")


def _key_reader(lookup: str) -> KeyReader:
    """Return a function that reads a row's key as the router's addresses do."""
    pattern = (
        RoutePattern(lookup, is_endpoint=True) if lookup.startswith("<") else RegexPattern(f"^{lookup}$", None, True)
    )

    def read_key(value: str) -> Mapping[str, Any] | None:
        found = pattern.match(value)
        return None if not found else found[2]

    return read_key


def _routed(router: Any, prefix: str, viewset: Any) -> dict[str, Mapping[str, Any]]:
    """Return the actions for which the router makes addresses, with their keywords of `as_view`."""
    routes = [(route, router.get_method_map(viewset, route.mapping)) for route in router.get_routes(viewset)]
    usable = [(route, mapping) for route, mapping in routes if mapping and "<" not in f"{prefix}{route.url}"]
    if not usable and any(mapping for _, mapping in routes):
        raise UnusableRouteError("its addresses have arguments besides the key of the row, as those of nested routers")
    return {action: route.initkwargs for route, mapping in usable for action in mapping.values()}


def _chosen(
    routed: Collection[str], groups: Iterable[str], stated: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Return the actions to publish, with their options."""
    found = dict(_of_groups(routed, groups))
    if missing := [name for name in stated if name not in routed]:
        raise UnusableRouteError(f"the router has no address for its action {missing[0]!r}")
    return {**found, **stated}


def _of_groups(routed: Collection[str], groups: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for group in groups:
        names = [name for name in _GROUPS[group] if name in routed]
        if not names:
            raise UnusableRouteError(f"it is in {group}, but has no action {' or '.join(_GROUPS[group])}")
        yield from ((name, {}) for name in names)


def _check_names(offers: Mapping[str, Iterable[Offer]]) -> None:
    """Raise `InvalidTool` if two basenames make the same name of a tool."""
    taken: dict[str, str] = {}
    for basename, found in offers.items():
        for offer in found:
            if (other := taken.setdefault(offer.name, basename)) != basename:
                raise InvalidTool(
                    f"The basenames {other!r} and {basename!r} both make a tool {offer.name!r}; "
                    "set the name of one of them in actions."
                )


def _words(basename: str) -> tuple[str, str]:
    """Return the singular and plural of the rows of a basename."""
    one = re.sub(r"[^A-Za-z0-9]+", " ", basename).strip().lower() or basename
    return one, one if one.endswith("s") else f"{one}s"
