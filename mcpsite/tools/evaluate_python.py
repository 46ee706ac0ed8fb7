"""`evaluate_python`: runs Python code in the worker's process, for staff users.

It is not a sandbox: the code can do anything. An endless loop is interrupted or killed when the call is cancelled.
"""

import ast
import io
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from types import CodeType
from typing import Annotated, Any, Final

from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from mcp_app.tools import CancelPolicy, ToolCancelled, ToolContext, ToolError, tool
from mcpsite.access import require_staff

MAX_CODE_CHARS: Final = 20_000
MAX_OUTPUT_CHARS: Final = 50_000
MAX_VALUE_CHARS: Final = 10_000
MAX_ERROR_CHARS: Final = 4_000
SOURCE: Final = "<code>"


class Evaluation(BaseModel):
    """The result of the code."""

    value: str | None = Field(description="repr of the last line, where that is an expression with a value")
    output: str = Field(description="what was printed")
    truncated: bool = Field(description="whether the value or the output was longer than is shown")


class _Output(io.TextIOBase):
    """Collects the code's output up to a limit. `check` is called at each write."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self.text = ""
        self.truncated = False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._check()
        room = MAX_OUTPUT_CHARS - len(self.text)
        self.text += text[:room]
        self.truncated = self.truncated or len(text) > room
        return len(text)


@tool(
    title="Evaluate Python",
    cancel=CancelPolicy.KILL,
    cooperative_grace=0.1,
    hard_grace=1.0,
    time_limit=60,
    annotations=ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
    ),
)
def evaluate_python(
    code: Annotated[str, Field(min_length=1, max_length=MAX_CODE_CHARS, description="Python statements")],
    ctx: ToolContext,
) -> Evaluation:
    """Run Python code on the server and return what it printed and the value of its last expression.

    For staff only. This is NOT a sandbox: the code runs with all rights of this site's worker, including its
    database and files, and its changes are permanent. Django is set up, so `from mcpsite.models import Contact` works.
    Code that does not end within 60 seconds is interrupted, and its process is killed if necessary.
    """
    require_staff(ctx)
    # Not streamed as progress, because the code may hold the interpreter for long.
    output = _Output(ctx.check)
    try:
        with redirect_stdout(output), redirect_stderr(output):
            value = _evaluate(code)
    except ToolError as error:
        raise ToolError(f"{error}\nPrinted before:\n{output.text}" if output.text else str(error)) from error
    finally:
        ctx.partial_result = output.text or None
    shown = value or ""
    return Evaluation(
        value=value and shown[:MAX_VALUE_CHARS],
        output=output.text,
        truncated=output.truncated or len(shown) > MAX_VALUE_CHARS,
    )


def _evaluate(code: str) -> str | None:
    """Run the code and return the repr of its last expression. Exceptions, also `SystemExit`, become a `ToolError`."""
    names: dict[str, Any] = {"__name__": "__evaluated__"}
    try:
        statements, last = _compiled(code)
        exec(statements, names)  # noqa: S102 - the purpose of this tool
        value = None if last is None else eval(last, names)  # noqa: S307 - as above
        return None if value is None else repr(value)
    except ToolCancelled:
        raise
    except BaseException as error:
        raise ToolError(_told(error)) from error


def _compiled(code: str) -> tuple[CodeType, CodeType | None]:
    tree = ast.parse(code, SOURCE)
    last = None
    if tree.body and isinstance(end := tree.body[-1], ast.Expr):
        del tree.body[-1]
        last = compile(ast.Expression(end.value), SOURCE, "eval")
    return compile(tree, SOURCE, "exec"), last


def _told(error: BaseException) -> str:
    """Return the error with the lines of the code that it passed through, without lines of the server."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == SOURCE]
    places = "".join(f"\n  in line {frame.lineno}, {frame.name}" for frame in frames)
    words = "".join(traceback.format_exception_only(error)).strip()
    return f"{words[:MAX_ERROR_CHARS]}{places[:MAX_ERROR_CHARS]}"
