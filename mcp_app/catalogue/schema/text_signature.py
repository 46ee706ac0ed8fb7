"""Signatures of functions that are called with text only: templates' variables, prompts' arguments.

Each text is converted as its parameter's annotation says, with pydantic's rules: "5" is a number
for a parameter annotated `int`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.catalogue.schema.signature import annotations_of, arguments_model, take_context
from mcp_app.protocol.errors import clip


@dataclass(frozen=True, eq=False)
class TextSignature:
    """The parameters of a function that is called with text only."""

    context_parameter: str | None
    model: type[BaseModel]
    """Converts each text as its parameter's annotation says."""
    parameters: Mapping[str, str]
    """The function's parameters by the fields of the model."""

    @property
    def arguments(self) -> dict[str, FieldInfo]:
        """The arguments by name, as pydantic's FieldInfo."""
        return {self.parameters[field]: info for field, info in self.model.model_fields.items()}

    def bind(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return keyword arguments for the function, without its context.

        Raises `InvalidArguments`, with a sentence.
        """
        try:
            bound = self.model.model_validate_strings(dict(texts))
        except ValidationError as error:
            raise InvalidArguments(_sentence(error)) from None
        return {self.parameters[field]: value for field, value in bound.__dict__.items()}


def read(function: Callable[..., Any], context: type) -> TextSignature:
    """Read the signature of a function that is called with text and a `context`.

    Raises `UnusableSignatureError`.
    """
    annotations = annotations_of(function)
    parameters = dict(inspect.signature(function).parameters)
    context_parameter = take_context(parameters, annotations, context)
    for name in parameters:
        annotations.setdefault(name, str)
    model = arguments_model(function.__name__, parameters, annotations)
    return TextSignature(context_parameter, model, dict(zip(model.model_fields, parameters, strict=True)))


def _sentence(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = clip(str(problem["loc"][0])) if problem["loc"] else ""
    if problem["type"] == "missing":
        return f"The argument {name} is required."
    if problem["type"] == "extra_forbidden":
        return f"There is no argument {name}."
    return f"The argument {name} does not fit: {clip(problem['msg'], 200)}."


def context_parameter(function: Callable[..., Any], context: type) -> str | None:
    """Return the name of the parameter that takes a `context`. Raises `UnusableSignatureError`."""
    return take_context(dict(inspect.signature(function).parameters), annotations_of(function), context)
