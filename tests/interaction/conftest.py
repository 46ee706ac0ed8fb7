"""A real endpoint without an HTTP server, as in `tests.transport`, that offers something of every
kind.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mcp_types
import pytest

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.prompts import Image, PromptError, assistant, prompt
from mcp_app.resources import ReadContext, ResourceError, resource
from mcp_app.states import TaskMode
from mcp_app.tools import tool
from tests.support.worker import Worker

DAYS = ("monday", "tuesday", "thursday")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.django_db(transaction=True, databases="__all__"))


@pytest.fixture(autouse=True)
def _settings(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "ALLOW_ANONYMOUS": True, "ALLOWED_HOSTS": ["testserver"], "DRAIN_SECONDS": 0.1}


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    with isolated_registries():
        yield


@pytest.fixture
def worker() -> Iterator[Worker]:
    """The worker, played by the test."""
    with Worker.at_work() as worker:
        yield worker


@pytest.fixture
def work_tool(_empty: None, configure) -> None:
    """A tool whose calls are answered as one JSON object if they take less than ten seconds."""
    configure(SSE_AFTER=10.0, KEEP_ALIVE=10.0)

    @tool
    def work() -> str:
        """Work."""
        return ""


@pytest.fixture
def task_tools(_empty: None, configure) -> None:
    """Tools that become tasks always, when slow, seldom and never."""
    configure(SSE_AFTER=10.0, KEEP_ALIVE=10.0, LOST_AFTER=60.0)

    @tool(task=TaskMode.ALWAYS)
    def job() -> str:
        """Work as a task."""
        return ""

    @tool(task=TaskMode.WHEN_SLOW, task_after=0.0)
    def slow() -> str:
        """Work as a task where the client knows tasks."""
        return ""

    @tool(task=TaskMode.WHEN_SLOW, task_after=60.0)
    def brisk() -> str:
        """Work, seldom for a minute."""
        return ""

    @tool
    def work() -> str:
        """Never work as a task."""
        return ""


@pytest.fixture
def offered() -> None:
    """Something of every kind."""

    @tool
    def work() -> str:
        """Work."""
        return ""

    @resource("notes://today", title="Today", mime_type="text/markdown", size=7)
    def today() -> str:
        """The notes of today."""
        return "# Today"

    @resource("image://dot")
    def dot() -> bytes:
        """An image."""
        return b"\x00\x01\xff"

    @resource("mine://notes")
    def mine(visit: ReadContext) -> list[mcp_types.TextResourceContents]:
        """The caller's notes."""
        return [
            mcp_types.TextResourceContents(
                uri=f"mine://notes/{number}", text=visit.principal.label, mime_type="text/plain"
            )
            for number in range(2)
        ]

    @resource("broken://{how}")
    def broken(how: str) -> str:
        """What fails."""
        raise ResourceError("The archive is closed.") if how == "said" else ZeroDivisionError("secret")

    @resource("notes://{day}/{hour}", title="Notes", completions={"day": complete_day})
    def of_hour(day: str, hour: int) -> dict[str, Any]:
        """The notes of an hour."""
        return {"day": day, "hour": hour}

    @prompt(title="Review", completions={"language": complete_day})
    def review(code: str, language: str = "python") -> list[Any]:
        """Ask for a review."""
        if not code:
            raise PromptError("There is no code to review.")
        return [f"Review this {language}: {code}", Image(b"\x00"), assistant("Gladly.")]

    @prompt
    def broken_prompt() -> str:
        """Fail."""
        raise ZeroDivisionError("secret")


def complete_day(value: str, context: Mapping[str, str]) -> list[str]:
    return [day for day in DAYS if day.startswith(value) and day != context.get("not")]
