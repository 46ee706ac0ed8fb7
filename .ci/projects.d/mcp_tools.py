import os

from app.models import Row

from mcp_app.tools import ToolContext, tool


@tool
def list_rows() -> list[str]:
    """List rows of the site."""
    return [row.name for row in Row.objects.all()[:50]]


@tool
def count_slowly(ctx: ToolContext) -> int:
    """Count the rows again and again, for a minute."""
    for second in range(60):
        with open(os.environ["USED_FILE"], "a") as file:
            file.write(f"{Row.objects.count()}\n")
        ctx.progress(second, 60, "counted")
        ctx.sleep(1)
    return Row.objects.count()
