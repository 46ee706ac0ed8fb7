"""Two small example tools, and the imports of all other tools that the site offers."""

from typing import Annotated

from mcp_types import ToolAnnotations
from pydantic import Field

from mcp_app.tools import CancelPolicy, ToolContext, tool
from mcpsite.tools.evaluate_python import evaluate_python
from mcpsite.tools.find_usages import find_usages
from mcpsite.tools.import_csv import import_csv
from mcpsite.tools.lint import lint
from mcpsite.tools.rename_symbol import rename_symbol
from mcpsite.tools.run_command import run_command
from mcpsite.tools.run_tests import run_tests

__all__ = [
    "countdown",
    "evaluate_python",
    "find_usages",
    "import_csv",
    "lint",
    "rename_symbol",
    "roman",
    "run_command",
    "run_tests",
]

PURE = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_NUMERALS = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip


@tool(title="Roman numeral", annotations=PURE)
def roman(number: Annotated[int, Field(ge=1, le=3999, description="from 1 to 3999")]) -> str:
    """Write a number as a Roman numeral."""
    numeral = ""
    for value, letters in _NUMERALS:
        count, number = divmod(number, value)
        numeral += letters * count
    return numeral


@tool(title="Count down", cancel=CancelPolicy.INTERRUPT, annotations=PURE)
def countdown(seconds: Annotated[int, Field(ge=1, le=600, description="how long to count")], ctx: ToolContext) -> str:
    """Count down a number of seconds and report each as progress. Use it to try progress and cancellation."""
    for second in range(seconds):
        ctx.progress(second, seconds, f"{seconds - second} s left")
        ctx.sleep(1)
    ctx.progress(seconds, seconds, "done")
    return f"Counted down {seconds} s."
