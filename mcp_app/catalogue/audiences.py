"""Whom a change of a list concerns: those who may have something of what changed.

An audience is everybody whom the same permissions and groups admit. Each list has a change version for every audience
of what it holds, and one for changes of which nobody said what changed. Who listens watches all of a list's; which of
them it is told is decided when they change, since rights come and go.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from typing import Final

from mcp_app.auth.access import EVERYBODY, Access
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import rights
from mcp_app.catalogue.prompts import registered_prompts
from mcp_app.catalogue.registry import registered_tools
from mcp_app.catalogue.resources import registered_resources
from mcp_app.catalogue.rights import Guarded

TOOLS: Final = "tools"
RESOURCES: Final = "resources"
PROMPTS: Final = "prompts"
_DIGITS: Final = 16


def subject(kind: str, access: Access) -> str:
    """The subject of changes of a list's part that takes this access; `kind` itself where everybody may have it."""
    if access.audience == EVERYBODY.audience:
        return kind
    digest = sha256(json.dumps(access.audience).encode()).hexdigest()
    return f"{kind}:{digest[:_DIGITS]}"


def subjects(kind: str) -> list[str]:
    """Everything that whoever listens to a list watches."""
    return [kind, *sorted({subject(kind, each.access) for each in _declared(kind).values()} - {kind})]


def concerned(principal: Principal, changed: Collection[str]) -> set[str]:
    """Those of these subjects of lists of whose changes `principal` is told.

    Where it was not said what changed: who may have anything of the list.
    """
    return {each for each in changed if any(rights.granted(_behind(each), principal))}


def subjects_of(kind: str, names: Iterable[str]) -> set[str]:
    """Those of a list's subjects that these names are of; of one that has no code here, and of none, the list's own."""
    declared = _declared(kind)
    return {subject(kind, declared[name].access) if name in declared else kind for name in names} or {kind}


def _behind(subject_of_list: str) -> list[Guarded]:
    kind, _, audience = subject_of_list.partition(":")
    declared = _declared(kind).values()
    return [each for each in declared if not audience or subject(kind, each.access) == subject_of_list]


def _declared(kind: str) -> Mapping[str, Guarded]:
    registered: Mapping[str, Callable[[], Mapping[str, Guarded]]] = {
        TOOLS: registered_tools,
        RESOURCES: registered_resources,
        PROMPTS: registered_prompts,
    }
    return registered[kind]()
