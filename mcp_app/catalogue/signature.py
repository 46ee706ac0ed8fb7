"""A function's signature as JSON Schema: its parameters are the tool's input, its return annotation the output.

Parameters become the fields of a pydantic model, so everything that pydantic annotates works: `Field`, defaults,
enums, models, dataclasses, TypedDicts. A parameter annotated with `Context` is left out. With an explicit input schema
the function takes one parameter besides the context: the validated arguments, as one dictionary.
Source: 2026-07-28 server/tools "Tool".
"""

import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import mcp_types
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from mcp_app.catalogue import dialects
from mcp_app.catalogue.blocks import Audio, Image
from mcp_app.catalogue.context_marker import Context
from mcp_app.catalogue.json_schema import UnusableSchemaError, check, check_input

NO_ARGUMENTS: Final = {"type": "object", "additionalProperties": False}
"""The input of a tool without parameters (server/tools "Tool")."""

_CONTENT: Final = (str, bytes, Image, Audio, mcp_types.CallToolResult, *get_args(mcp_types.ContentBlock))
_LISTS: Final = (list, tuple, Sequence, Collection, Iterable)
_SECTIONS: Final = frozenset(
    {"args", "arguments", "example", "examples", "note", "notes", "parameters", "params", "raises", "returns", "yields"}
)


class UnusableSignatureError(ValueError):
    """The function's signature cannot become a tool; the message says what to change."""


class _ToolSchema(GenerateJsonSchema):
    """Without a title for every field: it repeats the name, and each costs a model's attention."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class Signature:
    """What a function takes and gives. Schemas are shared with every answer that shows them: never change them."""

    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    """None: the tool's results are content alone."""
    context_parameter: str | None
    model: type[BaseModel] | None
    """Holds the arguments; None with an explicit input schema."""
    parameters: Mapping[str, str]
    """The function's parameter by the model's field."""
    mapping_parameter: str | None
    """The parameter that takes all arguments; only with an explicit input schema."""
    returned: TypeAdapter[Any] | None
    """Turns what the function returns into JSON; only with an output schema."""
    returns_blocks: bool = False
    """Whether a list that it returns is one of content blocks, whatever is in it: so it is annotated."""

    @cached_property
    def input_validator(self) -> Any:
        """A `jsonschema` validator of the input schema."""
        return dialects.validator(self.input_schema)

    @cached_property
    def output_validator(self) -> Any:
        """A `jsonschema` validator of the output schema; asked for only where there is one."""
        return dialects.validator(self.output_schema or {})


def read(function: Callable[..., Any], input_schema: dict[str, Any] | None) -> Signature:
    """Read a function's signature; raise `UnusableSignatureError` or `UnusableSchemaError`."""
    annotations = annotations_of(function)
    returned = annotations.pop("return", None)
    parameters = dict(inspect.signature(function).parameters)
    context = take_context(parameters, annotations, Context)
    model, mapping = None, None
    if input_schema is None:
        model = arguments_model(function.__name__, parameters, annotations)
        input_schema = _input_schema(model)
    else:
        mapping = _only_parameter(parameters)
    check_input(input_schema)
    adapter, output_schema = _output(returned)
    return Signature(
        input_schema=input_schema,
        output_schema=output_schema,
        context_parameter=context,
        model=model,
        parameters={} if model is None else dict(zip(model.model_fields, parameters, strict=True)),
        mapping_parameter=mapping,
        returned=adapter,
        returns_blocks=any(map(_is_list_of_content, _alternatives(returned))),
    )


def description_of(function: Callable[..., Any]) -> str:
    """The docstring up to its first section about parameters, results or errors; "" without one."""
    kept: list[str] = []
    for line in (inspect.getdoc(function) or "").splitlines():
        word = line.strip().rstrip(":").lower()
        if line.startswith((":param", ":return", ":raise", ":type", "@param")) or word in _SECTIONS:
            break
        kept.append(line)
    return "\n".join(kept).strip()


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The type hints of a function's parameters and of what it returns."""
    try:
        return get_type_hints(inspect.unwrap(function), include_extras=True)
    except NameError as error:
        raise UnusableSignatureError(
            f"the annotation {error.name!r} is not known when the module is imported; "
            "define or import it above the tool, not under TYPE_CHECKING"
        ) from error


def take_context(parameters: dict[str, inspect.Parameter], annotations: Mapping[str, Any], context: type) -> str | None:
    """Take out of `parameters` the one that takes a `context`; its name, None without one."""
    names = [name for name in parameters if _is_context(annotations.get(name), context)]
    if len(names) > 1:
        raise UnusableSignatureError(f"only one parameter may take the context, not {' and '.join(names)}")
    for name in names:
        del parameters[name]
    return names[0] if names else None


def _is_context(annotation: Any, context: type) -> bool:
    return any(isinstance(part, type) and issubclass(part, context) for part in _alternatives(annotation))


def _alternatives(annotation: Any) -> list[Any]:
    """The types that a union allows, without their metadata; one for what is no union."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [part for alternative in get_args(annotation) for part in _alternatives(alternative)]
    return [annotation]


def _only_parameter(parameters: Mapping[str, inspect.Parameter]) -> str:
    usable = [each.name for each in parameters.values() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if len(parameters) != 1 or not usable:
        raise UnusableSignatureError("with an input_schema of its own it takes one parameter: all arguments, as a dict")
    return usable[0]


def arguments_model(
    name: str, parameters: Mapping[str, inspect.Parameter], annotations: Mapping[str, Any]
) -> type[BaseModel]:
    """A pydantic model whose fields are the parameters in order, each named by its alias."""
    # Fields have names of our own, or a parameter called `json` or `_x` would clash with pydantic's.
    fields = {
        f"argument_{number}": _field(parameter, annotations.get(parameter.name, Any))
        for number, parameter in enumerate(parameters.values())
    }
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())
    try:
        return create_model(f"{name}_arguments", __config__=config, **fields)  # type: ignore[call-overload, no-any-return]  # fields are made at run time
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError) as error:
        raise UnusableSignatureError(f"a parameter has a type that JSON cannot carry: {error.message}") from error


def _field(parameter: inspect.Parameter, annotation: Any) -> tuple[Any, FieldInfo]:
    if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
        raise UnusableSignatureError(f"the parameter {parameter} cannot be passed by name")
    if parameter.default is inspect.Parameter.empty:
        field = FieldInfo.from_annotation(annotation)
    else:
        field = FieldInfo.from_annotated_attribute(annotation, parameter.default)
    if field.alias not in (None, parameter.name):
        raise UnusableSignatureError(f"rename the parameter {parameter.name} instead of giving it an alias")
    field.alias = field.validation_alias = field.serialization_alias = parameter.name
    return field.annotation, field


def _input_schema(model: type[BaseModel]) -> dict[str, Any]:
    if not model.model_fields:
        return dict(NO_ARGUMENTS)
    try:
        schema = model.model_json_schema(schema_generator=_ToolSchema)
    except PydanticUserError as error:
        raise UnusableSchemaError(f"a parameter has no JSON Schema: {error.message}") from error
    del schema["title"]
    return schema


def _output(annotation: Any) -> tuple[TypeAdapter[Any], dict[str, Any]] | tuple[None, None]:
    if not _is_structured(annotation):
        return None, None
    try:
        adapter = TypeAdapter(annotation)
        schema = adapter.json_schema(schema_generator=_ToolSchema, mode="serialization")
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError) as error:
        raise UnusableSignatureError(f"the return annotation has no JSON Schema: {error.message}") from error
    check(schema)
    return adapter, schema


def _is_structured(annotation: Any) -> bool:
    """Whether results so annotated are structured: said at all, and none of them text or content for a model."""
    parts = [part for part in _alternatives(annotation) if part not in (None, types.NoneType)]
    return bool(parts) and not any(part in (Any, object) or _is_content(part) for part in parts)


def _is_content(annotation: Any) -> bool:
    return _is_list_of_content(annotation) or annotation in _CONTENT


def _is_list_of_content(annotation: Any) -> bool:
    if get_origin(annotation) not in _LISTS:
        return False
    parts = [part for argument in get_args(annotation) for part in _alternatives(argument)]
    return any(part is not str and _is_content(part) for part in parts)
