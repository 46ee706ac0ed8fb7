"""Tools of the conformance suite's tasks scenarios; their names, arguments and texts are the suite's."""

from typing import Any, Final

from pydantic import BaseModel

from mcp_app.tools import Form, ProtocolError, TaskMode, ToolContext, ToolError, tool

KNOWS_TASKS: Final[dict[str, Any]] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


class Confirmation(BaseModel):
    confirm: bool


class Person(BaseModel):
    name: str


@tool
def greet(name: str) -> str:
    """Return a greeting at once."""
    return f"Hello, {name}!"


@tool(task=TaskMode.WHEN_SLOW, task_after=0.2)
def slow_compute(ctx: ToolContext, seconds: float = 1.0, label: str = "") -> str:
    """Take the given number of seconds."""
    ctx.progress(0, seconds, f"Computing {label}")
    ctx.sleep(seconds)
    return f"Computed {label} in {seconds:g} s."


@tool(task=TaskMode.ALWAYS)
def failing_job(ctx: ToolContext) -> str:
    """Fail after a while, with a message for the model."""
    ctx.sleep(0.5)
    raise ToolError("The job has failed.")


@tool(task=TaskMode.ALWAYS)
def protocol_error_job() -> str:
    """End with a protocol error."""
    raise ProtocolError("The job cannot be served.")


@tool(task=TaskMode.ALWAYS, asks=[Confirmation])
def confirm_delete(filename: str, ctx: ToolContext) -> str:
    """Ask the user to confirm the deletion of a file, and return the answer."""
    answer = ctx.elicit("confirm", f"Delete {filename}?", Confirmation)
    return f"{filename}: {answer.action}"


@tool(task=TaskMode.ALWAYS, asks=(Confirmation, Person))
def multi_input(ctx: ToolContext) -> str:
    """Ask for two things at once."""
    answers = ctx.ask(confirm=Form("Go on?", Confirmation), name=Form("What is your name?", Person))
    return ", ".join(f"{key}: {answer.action}" for key, answer in answers.items())


@tool(task=TaskMode.WHEN_SLOW, task_after=2.0, requires=KNOWS_TASKS, asks=[Person])
def test_tool_with_task(ctx: ToolContext) -> str:
    """Ask for a name first, and then run long enough to become a task."""
    answer = ctx.elicit("user_name", "What is your name?", Person)
    ctx.sleep(3.0)
    return f"Hello, {answer.content.name if answer.content else 'whoever you are'}!"
