"""Change subjects for lists, so that only callers who can see a change are notified of it.

1. Declarations with the same permissions, groups and endpoints form an audience: the same callers
   can see all of them.
2. Each list (tools, resources, prompts) has a change version for each audience, `tools:<digest>`,
   and one for changes without a name, `tools`.
3. A listen stream watches all subjects of its lists. When one changes, `concerned` decides whether
   the caller is notified. This happens at the time of the change because rights may be granted or
   revoked while the stream is open.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from typing import Final

from mcp_app.auth.principal import Access, Principal
from mcp_app.catalogue import declaration
from mcp_app.catalogue.declaration import Guarded
from mcp_app.catalogue.prompts import registered_prompts
from mcp_app.catalogue.registry import registered_tools
from mcp_app.catalogue.resources import registered_resources

TOOLS: Final = "tools"
RESOURCES: Final = "resources"
PROMPTS: Final = "prompts"
_DIGITS: Final = 16


def subject(kind: str, access: Access) -> str:
    """Return the subject for changes of declarations in the list `kind` with this access."""
    digest = sha256(json.dumps(access.audience).encode()).hexdigest()
    return f"{kind}:{digest[:_DIGITS]}"


def subjects(kind: str) -> list[str]:
    """Return all subjects that a listener to the list `kind` watches."""
    return [kind, *sorted({subject(kind, each.access) for each in _declared(kind).values()})]


def visible_to(principal: Principal, changed: Collection[str]) -> set[str]:
    """Return the subjects among `changed` that `principal` is notified of.

    For a list's own subject, callers are notified who may use anything in the list.
    """
    return {each for each in changed if any(declaration.granted(_behind(each), principal))}


def subjects_of(kind: str, names: Iterable[str]) -> set[str]:
    """Return the subjects of these declarations in the list `kind`.

    The list's own subject stands for names without code in this process, and for an empty `names`.
    """
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
