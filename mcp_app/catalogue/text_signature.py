"""The signature of a function that is called with text alone: the variables of a template, the arguments of a prompt.

Each text becomes what its parameter's annotation says, in the way of pydantic: "5" is a number where one is wanted.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.catalogue.signature import annotations_of, arguments_model, take_context
from mcp_app.protocol.errors import clip


@dataclass(frozen=True, eq=False)
class TextSignature:
    """What a function takes that is called with text alone: a template's variables, a prompt's arguments."""

    context_parameter: str | None
    model: type[BaseModel]
    """Makes of each text what the parameter's annotation says."""
    parameters: Mapping[str, str]
    """The function's parameter by the model's field."""

    @property
    def arguments(self) -> dict[str, FieldInfo]:
        """The arguments by name, as pydantic has them."""
        return {self.parameters[field]: info for field, info in self.model.model_fields.items()}

    def bind(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Keyword arguments for the function, its context left out. Raises `InvalidArguments`, a sentence."""
        try:
            bound = self.model.model_validate_strings(dict(texts))
        except ValidationError as error:
            raise InvalidArguments(_sentence(error)) from None
        return {self.parameters[field]: value for field, value in bound.__dict__.items()}


def read(function: Callable[..., Any], context: type) -> TextSignature:
    """Read the signature of a function that is called with text and a `context`. Raises `UnusableSignatureError`."""
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
    """The parameter that takes a `context`, by its annotation. Raises `UnusableSignatureError`."""
    return take_context(dict(inspect.signature(function).parameters), annotations_of(function), context)
