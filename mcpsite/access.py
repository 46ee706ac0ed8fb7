"""Who may call the tools that run code or change files: staff, and whoever develops this site on their own machine.

Refuses to decide who is asking: that is `mcp_app`'s.
"""

from django.conf import settings

from mcp_app.auth.principal import ANONYMOUS
from mcp_app.models import Request
from mcp_app.tools import ToolContext, ToolError


def require_staff(ctx: ToolContext) -> None:
    """Raise ToolError unless the caller is active staff, or anonymous on a site under DEBUG (served on loopback)."""
    user = ctx.user
    if user is not None and user.is_active and getattr(user, "is_staff", False):
        return
    if settings.DEBUG and _is_anonymous(ctx):
        return
    raise ToolError(
        f"The tool {ctx.request.tool} does more than read, so only staff may call it. "
        "Ask an administrator of this site for a token of a staff user."
    )


def _is_anonymous(ctx: ToolContext) -> bool:
    """Whether nobody was named at all: the user of a caller may be gone, who is no stranger for that."""
    return ANONYMOUS.owns(Request.objects.get(pk=ctx.request.id))
