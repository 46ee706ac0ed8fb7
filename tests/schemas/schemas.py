"""Strict JSON Schemas of each revision, for the messages that a server sends.

1. The `mcp-types` models of a revision are generated from its official schema.json, and
   `mcp_types.methods` maps methods to them. Their JSON Schemas are used here, so no file is needed.
2. These schemas are closed: objects have only members that their revision defines, and members that
   may be absent must not be null.
3. If `MCP_SCHEMAS` names a folder with official schema.json files, those replace the models.
   `.ci/schemas` fetches them from the sources of the package `mcp`.
4. Neither source covers the revisions before 2025-11-25. Their schemas are made by removing later
   additions.
5. The tasks extension has no package, so its schema is written out here.
"""

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args

from jsonschema import Draft202012Validator, FormatChecker
from mcp_types.methods import SERVER_NOTIFICATIONS, SERVER_REQUESTS, SERVER_RESULTS
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

MODERN: Final = "2026-07-28"
LATEST_LEGACY: Final = "2025-11-25"
REVISIONS: Final = ("2025-03-26", "2025-06-18", LATEST_LEGACY, MODERN)
ID_IN_EVERY_ERROR: Final = ("2025-03-26", "2025-06-18")

Schema = dict[str, Any]

_ADDED: Final[Mapping[str, Mapping[str, set[str]]]] = {
    "2025-06-18": {
        "Annotations": {"lastModified"},
        "CallToolResult": {"structuredContent"},
        "Implementation": {"title"},
        "Prompt": {"_meta", "title"},
        "PromptArgument": {"title"},
        "Resource": {"_meta", "title"},
        "ResourceTemplate": {"_meta", "title"},
        "Tool": {"_meta", "outputSchema", "title"},
        **{
            name: {"_meta"}
            for name in (
                *("AudioContent", "BlobResourceContents", "EmbeddedResource", "ImageContent", "Root", "TextContent"),
                "TextResourceContents",
            )
        },
    },
    "2025-11-25": {
        "CreateMessageRequestParams": {"task", "toolChoice", "tools"},
        "ElicitRequestFormParams": {"mode", "task"},
        "Implementation": {"description", "icons", "websiteUrl"},
        "NumberSchema": {"default"},
        "Prompt": {"icons"},
        "Resource": {"icons"},
        "ResourceLink": {"icons"},
        "ResourceTemplate": {"icons"},
        "SamplingMessage": {"_meta"},
        "ServerCapabilities": {"tasks"},
        "StringSchema": {"default"},
        "Tool": {"execution", "icons"},
    },
}
"""The members that a revision added to existing objects."""
_NEW: Final[Mapping[str, set[str]]] = {
    "2025-06-18": {"ResourceLink"},
    "2025-11-25": {
        *("ElicitRequestURLParams", "TitledMultiSelectEnumSchema", "TitledSingleSelectEnumSchema"),
        *("ToolResultContent", "ToolUseContent", "UntitledMultiSelectEnumSchema"),
    },
}
"""The objects that a revision added as further alternatives of existing unions."""

_OPEN: Final = ("default", "inputSchema", "outputSchema")
"""Members with arbitrary values. The last two are JSON Schemas themselves."""

_TIME: Final = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"}
_TASK: Final[Schema] = {
    "taskId": {"type": "string", "minLength": 1},
    "statusMessage": {"type": "string"},
    "createdAt": _TIME,
    "lastUpdatedAt": _TIME,
    "ttlMs": {"type": ["integer", "null"]},
    "pollIntervalMs": {"type": "integer"},
}
_STATUSES: Final = ("working", "input_required", "completed", "failed", "cancelled")
_ASKED: Final = [{"$ref": f"#/$defs/{name}"} for name in ("ElicitRequest", "CreateMessageRequest", "ListRootsRequest")]
_OUTCOMES: Final[Mapping[str, Schema]] = {
    "input_required": {"inputRequests": {"type": "object", "additionalProperties": {"anyOf": _ASKED}}},
    "completed": {"result": {"$ref": "#/$defs/CallToolResult"}},
    "failed": {"error": {"$ref": "#/$defs/Error"}},
}
"""The members that a task has in addition, by status."""


def source() -> str:
    """Return the source of the schemas, for a test's header."""
    return f"schema.json of {_folder()}" if _folder() else "the models of mcp-types"


def results(method: str, revision: str) -> list[str]:
    """Return the names of a method's results; empty if the revision does not have the method."""
    if revision == MODERN and method in ("tasks/update", "tasks/cancel"):
        return ["Acknowledged"]
    if revision == MODERN and method == "tasks/get":
        return ["DetailedTask"]
    names = _names(SERVER_RESULTS.get((method, revision)))
    return [*names, "CreatedTask"] if (method, revision) == ("tools/call", MODERN) else names


def notification(method: str, revision: str) -> list[str]:
    if (method, revision) == ("notifications/tasks", MODERN):
        return ["TaskNotification"]
    return _names(SERVER_NOTIFICATIONS.get((method, revision)))


def request(method: str, revision: str) -> list[str]:
    return _names(SERVER_REQUESTS.get((method, revision)))


@cache
def validator(names: tuple[str, ...], revision: str) -> Draft202012Validator:
    """Return a validator for any of these schemas."""
    alternatives = [{"$ref": f"#/$defs/{name}"} for name in names]
    return Draft202012Validator({"$defs": definitions(revision), "anyOf": alternatives}, format_checker=FORMATS)


@cache
def definitions(revision: str) -> dict[str, Schema]:
    """Return the closed schemas of a revision by name, with the error and the tasks extension."""
    found = _official(revision) or _of_models(revision)
    for later in REVISIONS[REVISIONS.index(revision) + 1 : -1]:
        found = _without(found, _ADDED.get(later, {}), _NEW.get(later, set()))
    closed = {name: _closed(schema) for name, schema in found.items()}
    closed |= {"Error": _object({"code": {"type": "integer"}, "message": {"type": "string"}}, {"data": {}})}
    if revision == MODERN:
        closed["SubscriptionFilter"]["properties"]["taskIds"] = {"type": "array", "items": {"type": "string"}}
        return closed | _tasks()
    # The result of methods without one, `{}`. The official schema allows any member.
    return closed | {"Result": {"type": "object", "maxProperties": 0}}


def _names(model: type[BaseModel] | UnionType | None) -> list[str]:
    return [] if model is None else [each.__name__ for each in (get_args(model) or (model,))]


def _base(revision: str) -> str:
    return MODERN if revision == MODERN else LATEST_LEGACY


def _folder() -> Path | None:
    return Path(os.environ["MCP_SCHEMAS"]) if "MCP_SCHEMAS" in os.environ else None


def _official(revision: str) -> dict[str, Schema] | None:
    folder = _folder()
    if folder is None:
        return None
    named = json.loads((folder / f"{_base(revision)}.json").read_text(encoding="utf-8"))["$defs"]
    assert isinstance(named, dict)
    return named


def _of_models(revision: str) -> dict[str, Schema]:
    rooms = (SERVER_RESULTS, SERVER_NOTIFICATIONS, SERVER_REQUESTS)
    base = _base(revision)
    models = {each for room in rooms for (_, of), model in room.items() if of == base for each in _models(model)}
    schemas = models_json_schema([(model, "validation") for model in sorted(models, key=str)], by_alias=True)[1]
    return {name: _without_nulls(schema) for name, schema in schemas["$defs"].items()}


def _models(model: Any) -> Iterable[type[BaseModel]]:
    return get_args(model) or (model,)


def _without_nulls(schema: Any) -> Any:
    """Remove null from `X | None = None`: such a member may be absent, but not null."""
    if isinstance(schema, list):
        return [_without_nulls(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    alternatives = schema.get("anyOf", [])
    if "default" in schema and schema["default"] is None and {"type": "null"} in alternatives:
        kept = [each for each in alternatives if each != {"type": "null"}]
        return _without_nulls(kept[0] if len(kept) == 1 else {"anyOf": kept})
    return {name: _without_nulls(value) for name, value in schema.items()}


def _without(named: Mapping[str, Schema], members: Mapping[str, set[str]], forms: set[str]) -> dict[str, Schema]:
    """Return the schemas without members and alternatives that later revisions added."""
    references = [{"$ref": f"#/$defs/{form}"} for form in forms]

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(each) for each in value if each not in references]
        if not isinstance(value, dict):
            return value
        walked = {name: walk(each) for name, each in value.items()}
        return {"not": {}} if walked.get("anyOf") == [] else walked

    before = {name: walk(schema) for name, schema in named.items()}
    for name, added in members.items():
        if name in before:
            before[name]["properties"] = {k: v for k, v in before[name]["properties"].items() if k not in added}
            before[name]["required"] = [member for member in before[name].get("required", ()) if member not in added]
    return before


def _closed(schema: Any) -> Any:
    """Forbid members that the schema does not name, unless it allows others itself."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: value if name in _OPEN else _closed(value) for name, value in schema.items()}
    if isinstance(closed.get("properties"), dict) and closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def _object(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _tasks() -> dict[str, Schema]:
    """Return the schemas of the tasks extension (ext-tasks specification/draft/tasks)."""
    optional = {name: _TASK[name] for name in ("statusMessage", "pollIntervalMs")}
    common = {name: _TASK[name] for name in _TASK if name not in optional}
    meta = {"$ref": "#/$defs/ResultMetaObject"}
    by_status = [({"status": {"const": status}, **_OUTCOMES.get(status, {})}) for status in _STATUSES]
    detailed = [
        _object({**common, **each, "resultType": {"const": "complete"}, "_meta": meta}, optional) for each in by_status
    ]
    told = [_object({**common, **each, "_meta": {"type": "object"}}, optional) for each in by_status]
    created = {**common, "status": {"enum": list(_STATUSES)}, "resultType": {"const": "task"}, "_meta": meta}
    method = {"jsonrpc": {"const": "2.0"}, "method": {"const": "notifications/tasks"}}
    return {
        "Acknowledged": _object({"resultType": {"const": "complete"}, "_meta": meta}),
        "CreatedTask": _object(created, optional),
        "DetailedTask": {"anyOf": detailed},
        "TaskNotification": _object({**method, "params": {"anyOf": told}}),
    }


FORMATS: Final = FormatChecker(formats=())


@FORMATS.checks("byte", ValueError)
def _is_base64(value: object) -> bool:
    return not isinstance(value, str) or isinstance(base64.b64decode(value, validate=True), bytes)


@FORMATS.checks("uri")
def _is_uri(value: object) -> bool:
    return not isinstance(value, str) or re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]*", value) is not None
