"""Makes JSON Schemas from a function's signature.

The input schema is made from its parameters, the output schema from its return annotation.

Parameters become fields of a pydantic model, so all of pydantic's annotations work: `Field`,
defaults, enums, models, dataclasses, TypedDicts. A parameter annotated with a `Context` is left
out. With an explicit input schema, the function takes one parameter besides the context: the
validated arguments, as a dictionary. Source: 2026-07-28 server/tools "Tool".
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

from mcp_app.catalogue.content.blocks import Audio, Image
from mcp_app.catalogue.schema import dialects
from mcp_app.catalogue.schema.inlining import inlined
from mcp_app.catalogue.schema.json_schema import UnusableSchemaError, check, check_input
from mcp_app.catalogue.schema.json_text import TextReader

NO_ARGUMENTS: Final = {"type": "object", "additionalProperties": False}
"""The input of a tool without parameters (server/tools "Tool")."""

_CONTENT: Final = (str, bytes, Image, Audio, mcp_types.CallToolResult, *get_args(mcp_types.ContentBlock))
_LISTS: Final = (list, tuple, Sequence, Collection, Iterable)
_SECTIONS: Final = frozenset(
    {"args", "arguments", "example", "examples", "note", "notes", "parameters", "params", "raises", "returns", "yields"}
)


class Context:
    """Base class of contexts. A parameter annotated with one is not an argument of the tool."""


class UnusableSignatureError(ValueError):
    """The function's signature cannot become a tool. The message says what to change."""


class _ToolSchema(GenerateJsonSchema):
    """Leaves out titles that repeat a name, and OpenAPI's `discriminator`."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        made = super().generate_inner(schema)
        cls = schema.get("cls")
        if isinstance(cls, type) and (target := self._target(made)).get("title") == cls.__name__:
            del target["title"]
        return made

    def _target(self, made: dict[str, Any]) -> dict[str, Any]:
        try:
            return (self.get_schema_from_definitions(made["$ref"]) or {}) if "$ref" in made else made
        except KeyError:  # an author's own reference
            return {}

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        made = super().decimal_schema(schema)
        for each in made.get("anyOf", ()):
            if "(?!" in each.get("pattern", ""):  # pydantic before 2.14; look-around is refused in schemas
                del each["pattern"]
        return made

    def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
        made = super().tagged_union_schema(schema)
        made.pop("discriminator", None)
        return made


@dataclass(frozen=True, eq=False)
class Signature:
    """The parameters and the return value of a function. Schemas are shared: do not change them."""

    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    """`None`: results have content only."""
    context_parameter: str | None
    model: type[BaseModel] | None
    """Validates the arguments; `None` with an explicit input schema."""
    parameters: Mapping[str, str]
    """The function's parameters by the fields of the model."""
    mapping_parameter: str | None
    """The parameter that receives all arguments; only with an explicit input schema."""
    returned: TypeAdapter[Any] | None
    """Converts the return value to JSON; only with an output schema."""
    returns_blocks: bool = False
    """Whether the annotation says that a returned list consists of content blocks."""

    @cached_property
    def input_validator(self) -> Any:
        """A `jsonschema` validator for the input schema."""
        return dialects.validator(self.input_schema)

    @cached_property
    def text_reader(self) -> TextReader:
        """The reader of JSON text in arguments."""
        return TextReader(self.input_schema)

    @cached_property
    def output_validator(self) -> Any:
        """A `jsonschema` validator for the output schema. Used only if there is one."""
        return dialects.validator(self.output_schema or {})


def read(function: Callable[..., Any], input_schema: dict[str, Any] | None) -> Signature:
    """Read a function's signature. Raises `UnusableSignatureError` and `UnusableSchemaError`."""
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
    """Return the docstring up to its first section about parameters, results or errors, or ""."""
    kept: list[str] = []
    for line in (inspect.getdoc(function) or "").splitlines():
        word = line.strip().rstrip(":").lower()
        if line.startswith((":param", ":return", ":raise", ":type", "@param")) or word in _SECTIONS:
            break
        kept.append(line)
    return "\n".join(kept).strip()


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type hints of a function's parameters and return value."""
    try:
        return get_type_hints(inspect.unwrap(function), include_extras=True)
    except NameError as error:
        raise UnusableSignatureError(
            f"the annotation {error.name!r} is not known when the module is imported; "
            "define or import it above the tool, not under TYPE_CHECKING"
        ) from error


def take_context(parameters: dict[str, inspect.Parameter], annotations: Mapping[str, Any], context: type) -> str | None:
    """Remove the parameter for a `context` from `parameters`. Return its name, or `None`."""
    names = [name for name in parameters if _is_context(annotations.get(name), context)]
    if len(names) > 1:
        raise UnusableSignatureError(f"only one parameter may take the context, not {' and '.join(names)}")
    for name in names:
        del parameters[name]
    return names[0] if names else None


def _is_context(annotation: Any, context: type) -> bool:
    return any(isinstance(part, type) and issubclass(part, context) for part in _alternatives(annotation))


def _alternatives(annotation: Any) -> list[Any]:
    """Return the types of a union without their metadata; a list of one for other types."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [part for alternative in get_args(annotation) for part in _alternatives(alternative)]
    return [annotation]


def _only_parameter(parameters: Mapping[str, inspect.Parameter]) -> str:
    usable = [each.name for each in parameters.values() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if len(parameters) != 1 or not usable:
        raise UnusableSignatureError(
            "a function with its own input_schema must take one parameter: all arguments, as a dict"
        )
    return usable[0]


def arguments_model(
    name: str, parameters: Mapping[str, inspect.Parameter], annotations: Mapping[str, Any]
) -> type[BaseModel]:
    """Create a pydantic model whose fields are the parameters in order, each named by its alias."""
    # Fields get neutral names, because a parameter called `json` or `_x` would clash with
    # pydantic's.
    fields = {
        f"argument_{number}": _field(parameter, annotations.get(parameter.name, Any))
        for number, parameter in enumerate(parameters.values())
    }
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())
    try:
        return create_model(f"{name}_arguments", __config__=config, **fields)  # type: ignore[call-overload, no-any-return]  # fields are made at run time
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError) as error:
        raise UnusableSignatureError(f"a parameter has a type that JSON cannot represent: {error.message}") from error


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
    return inlined(schema)


def _output(annotation: Any) -> tuple[TypeAdapter[Any], dict[str, Any]] | tuple[None, None]:
    if not _is_structured(annotation):
        return None, None
    try:
        adapter = TypeAdapter(annotation)
        schema = inlined(adapter.json_schema(schema_generator=_ToolSchema, mode="serialization"))
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError) as error:
        raise UnusableSignatureError(f"the return annotation has no JSON Schema: {error.message}") from error
    check(schema)
    return adapter, schema


def _is_structured(annotation: Any) -> bool:
    """Return whether the annotation is given and is neither text nor content."""
    parts = [part for part in _alternatives(annotation) if part not in (None, types.NoneType)]
    return bool(parts) and not any(part in (Any, object) or _is_content(part) for part in parts)


def _is_content(annotation: Any) -> bool:
    return _is_list_of_content(annotation) or annotation in _CONTENT


def _is_list_of_content(annotation: Any) -> bool:
    if get_origin(annotation) not in _LISTS:
        return False
    parts = [part for argument in get_args(annotation) for part in _alternatives(argument)]
    return any(part is not str and _is_content(part) for part in parts)
