"""The tools, resources and prompts for these clients: one of every kind.

`FIXTURE_SITE` describes the objects of the acceptance tests' servers.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final

import mcp_types
from pydantic import BaseModel, Field

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.prompts import Image, PromptError, assistant, prompt
from mcp_app.resources import ResourceError, resource
from mcp_app.tools import Audio, ProtocolError, TaskMode, ToolError, tool

ICON: Final = mcp_types.Icon(src="https://example.com/icon.png", mime_type="image/png")
META: Final = {"com.example/kind": "sample"}
MARKED: Final = mcp_types.Annotations(audience=["user"], priority=0.5, last_modified="2026-01-02T03:04:05Z")
NOTHING: Final = ({},)


@dataclass(frozen=True)
class Offer:
    """The names that clients can use, with arguments."""

    tools: Mapping[str, Sequence[Mapping[str, Any]]]
    """Arguments by tool, valid ones first."""
    held: frozenset[str]
    """The tools whose calls end only when they are cancelled."""
    prompts: Mapping[str, Sequence[Mapping[str, Any]]]
    uris: tuple[str, ...]
    templates: tuple[str, ...]
    completed: Sequence[Mapping[str, str]]
    """Arguments of the prompts and templates for completion."""
    question: str
    """The key with which the tools ask."""
    answer: Mapping[str, Any]
    """A valid answer."""
    fails: frozenset[str]
    """The tools, resources and prompts that fail with an internal error."""


SAMPLES: Final = Offer(
    tools={
        "plain": [{"text": text} for text in ("", "é💥", "\x07", "x" * 3000, 3, None)],
        "several": NOTHING,
        "structured": [{"size": 1}, {"size": -1}, {"size": "many"}, {}],
        "listing": NOTHING,
        "nothing": NOTHING,
        "failing": NOTHING,
        "broken": NOTHING,
        "wrong": NOTHING,
        "reporting": NOTHING,
        "asking": NOTHING,
        "held": NOTHING,
        "job": NOTHING,
        "asking_job": NOTHING,
        "failing_job": NOTHING,
        "regional": [{"region": "eu"}, {"region": "é"}, {"region": None}],
        "needy": NOTHING,
    },
    held=frozenset({"held"}),
    prompts={
        "review": [{"code": "x", "language": "python"}, {"code": ""}, {}, {"code": 1}],
        "broken_prompt": NOTHING,
        "unknown": NOTHING,
    },
    uris=(
        *("notes://today", "image://dot", "notes://monday/1", "notes://monday/x"),
        *("broken://said", "broken://x", "nothing://", "no uri"),
    ),
    templates=("notes://{day}/{hour}", "notes://monday/1"),
    completed=({"name": "language", "value": "mo"}, {"name": "day", "value": ""}),
    question="n",
    answer={"n": 3},
    fails=frozenset({"broken://said", "broken://x", "broken_prompt", "wrong", "failing_job"}),
)

FIXTURE_SITE: Final = Offer(
    tools={
        "test_simple_text": NOTHING,
        "test_image_content": NOTHING,
        "test_audio_content": NOTHING,
        "test_embedded_resource": NOTHING,
        "test_multiple_content_types": NOTHING,
        "test_error_handling": NOTHING,
        "test_tool_with_progress": NOTHING,
        "test_tool_with_logging": NOTHING,
        "test_missing_capability": NOTHING,
        "json_schema_2020_12_tool": [{"contact": {}}],
        "test_input_required_result_elicitation": NOTHING,
        "test_input_required_result_multi_round": NOTHING,
        "test_input_required_result_sampling": NOTHING,
        "test_input_required_result_list_roots": NOTHING,
        "slow_compute": [{"seconds": 0.4}],
        "failing_job": NOTHING,
        "protocol_error_job": NOTHING,
        "confirm_delete": [{"filename": "a"}],
        "multi_input": NOTHING,
    },
    held=frozenset(),
    prompts={
        "test_simple_prompt": NOTHING,
        "test_prompt_with_arguments": [{"arg1": "a", "arg2": "b"}, {"arg1": "a"}, {"arg1": 1}],
        "test_prompt_with_embedded_resource": [{"resourceUri": "test://static-text"}],
        "test_prompt_with_image": NOTHING,
    },
    uris=("test://static-text", "test://static-binary", "test://template/1/data", "test://nothing", "no uri"),
    templates=("test://template/{id}/data",),
    completed=({"name": "arg1", "value": "pa"},),
    question="user_name",
    answer={"name": "Ada"},
    fails=frozenset({"protocol_error_job"}),
)


class Size(BaseModel):
    size: int = Field(ge=0)


@contextmanager
def offered() -> Iterator[None]:
    """Offer `SAMPLES` and nothing else."""
    with isolated_registries():
        _tools()
        _busy_tools()
        _failing_tools()
        _tasks()
        _resources()
        _prompts()
        yield


def _tools() -> None:
    @tool(title="Plain", icons=[ICON], meta=META, annotations=mcp_types.ToolAnnotations(read_only_hint=True))
    def plain(text: str = "") -> str:
        """Return the text."""
        return text

    @tool
    def several() -> list[mcp_types.TextContent | Image | Audio | mcp_types.EmbeddedResource | mcp_types.ResourceLink]:
        """Return a block of every kind."""
        contents = mcp_types.TextResourceContents(uri="notes://today", text="Today", _meta=META)
        link = mcp_types.ResourceLink(
            name="today", title="Today", uri="notes://today", icons=[ICON], annotations=MARKED, _meta=META
        )
        text = mcp_types.TextContent(text="Some", annotations=MARKED, _meta=META)
        embedded = mcp_types.EmbeddedResource(resource=contents, annotations=MARKED, _meta=META)
        return [text, Image(b"\x00", "image/png"), Audio(b"\x00", "audio/wav"), embedded, link]

    @tool
    def structured(size: int) -> Size:
        """Return an object, which may not fit the output schema."""
        return Size.model_construct(size=size)

    @tool
    def listing() -> list[int]:
        """Return an array."""
        return [1, 2, 3]

    @tool
    def nothing() -> None:
        """Return nothing."""


def _busy_tools() -> None:
    @tool
    def reporting() -> str:
        """Report progress and log lines."""
        return "reported"

    @tool
    def asking() -> str:
        """Ask for a number."""
        return "asked"

    @tool
    def held() -> str:
        """Work until it is cancelled."""
        return ""

    @tool
    def regional(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        """Work in a region."""
        return region

    @tool(requires={"elicitation": {}})
    def needy() -> str:
        """Need a client that can ask."""
        return ""


def _failing_tools() -> None:
    @tool
    def failing() -> str:
        """Fail with a message of its own."""
        raise ToolError("It has failed.")

    @tool
    def broken() -> str:
        """Fail."""
        raise ZeroDivisionError("secret")

    @tool
    def wrong() -> str:
        """End in an error of the protocol."""
        raise ProtocolError("It cannot be served.")


def _tasks() -> None:
    @tool(task=TaskMode.ALWAYS)
    def job() -> str:
        """Work as a task."""
        return "done"

    @tool(task=TaskMode.ALWAYS)
    def asking_job() -> str:
        """Ask as a task."""
        return "asked"

    @tool(task=TaskMode.WHEN_SLOW, task_after=0.0)
    def failing_job() -> str:
        """Fail as a task."""
        raise ProtocolError("It cannot be served.")


def _resources() -> None:
    @resource(
        "notes://today", title="Today", mime_type="text/markdown", size=7, icons=[ICON], annotations=MARKED, meta=META
    )
    def today() -> list[mcp_types.TextResourceContents]:
        """The notes of today."""
        return [mcp_types.TextResourceContents(uri="notes://today", text="# Today", _meta=META)]

    @resource("image://dot")
    def dot() -> bytes:
        """An image."""
        return b"\x00\x01\xff"

    @resource("broken://{how}")
    def broken(how: str) -> str:
        """A resource that fails."""
        raise ResourceError("The archive is closed.") if how == "said" else ZeroDivisionError("secret")

    @resource("notes://{day}/{hour}", title="Notes", icons=[ICON], meta=META, completions={"day": _days})
    def of_hour(day: str, hour: int) -> dict[str, Any]:
        """The notes of an hour."""
        return {"day": day, "hour": hour}


def _prompts() -> None:
    @prompt(title="Review", icons=[ICON], meta=META, completions={"language": _days})
    def review(code: Annotated[str, Field(title="Code")], language: str = "python") -> list[Any]:
        """Ask for a review."""
        if not code:
            raise PromptError("There is no code to review.")
        link = mcp_types.ResourceLink(name="today", uri="notes://today", icons=[ICON])
        return [f"Review this {language}: {code}", Image(b"\x00"), link, assistant("Gladly.")]

    @prompt
    def broken_prompt() -> str:
        """Fail."""
        raise ZeroDivisionError("secret")


def _days(value: str, context: Mapping[str, str]) -> list[str]:
    return [day for day in ("monday", "tuesday") if day.startswith(value) and day != context.get("not")]
