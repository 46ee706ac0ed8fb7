"""Restricts tools that run code or change data to staff users and to the user who starts a process of this site."""

from mcp_app.auth import local
from mcp_app.models import Request
from mcp_app.tools import ToolContext, ToolError


def require_staff(ctx: ToolContext) -> None:
    """Raise `ToolError` unless the caller is active staff, or runs `mcp stdio` or `mcp call` without `--user`."""
    user = ctx.user
    if user is not None and user.is_active and getattr(user, "is_staff", False):
        return
    if _started_the_process(ctx):
        return
    raise ToolError(
        f"The tool {ctx.request.tool} does more than read, so only staff may call it. Send a staff user's token as "
        "`Authorization: Bearer TOKEN`; an administrator of this site makes one with "
        "`python manage.py mcp token create USERNAME --name NAME`."
    )


def _started_the_process(ctx: ToolContext) -> bool:
    """Return whether the caller is a user of this machine who can read and write the site's data anyway."""
    row = Request.objects.only("issuer", "user_id").get(pk=ctx.request.id)
    return row.issuer == local.ISSUER and not row.user_id
