"""`run_command`: runs one of the site's commands (`mcpsite.commands`) and streams its output."""

from typing import Annotated, Final

from django.conf import settings
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from mcp_app.tools import CancelPolicy, ToolContext, ToolError, tool
from mcpsite.access import require_staff
from mcpsite.commands import RefusedError, Value, commands

MAX_OUTPUT_CHARS: Final = 200_000
_COMMANDS: Final = commands()


class CommandResult(BaseModel):
    """The exit status and the output of a command, with its standard error."""

    exit_status: int = Field(description="0 where the program was content; below 0 the signal that ended it")
    output: str
    truncated: bool = Field(description="whether it printed more than is shown")


@tool(
    title="Run a command",
    cancel=CancelPolicy.KILL,
    time_limit=600,
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
)
def run_command(
    ctx: ToolContext,
    command: Annotated[
        str,
        Field(
            description=f"one of: {'; '.join(map(str, _COMMANDS.values()))}",
            json_schema_extra={"enum": list(_COMMANDS)},
        ),
    ],
    arguments: Annotated[
        dict[str, Value],
        Field(
            description="the command's arguments by name; paths are relative to the uploads folder, `.` is all of it"
        ),
    ],
) -> CommandResult:
    """Run one of this site's commands in its uploads folder and return what it printed. Only staff may call this.

    Every line is reported as progress while the command runs. When the call is cancelled, the program and its child
    processes are killed, and the output so far is kept for the administrators.
    """
    require_staff(ctx)
    if (found := _COMMANDS.get(command)) is None:
        raise ToolError(f"There is no command of that name; there are {', '.join(_COMMANDS)}.")
    try:
        argv = found.filled(arguments)
    except RefusedError as error:
        raise ToolError(str(error)) from None
    done = ctx.run(argv, cwd=settings.UPLOADS, progress=True)
    output = done.output[:MAX_OUTPUT_CHARS]
    return CommandResult(
        exit_status=done.returncode, output=output, truncated=done.truncated or len(output) < len(done.output)
    )
