"""Sentences about a tool: the effect of a cancellation, and the risk of a setting.

Every value in them is the site's own, and none comes from a client.
"""

from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.states import CancelPolicy

_COOPERATIVE = (
    "Only its own code stops this tool. A cancellation or its time limit notifies it, and it runs on until it checks "
    "(ctx.check(), ctx.progress(), ctx.cancelled …) or ends. The graces are not used."
)
_INTERRUPT = (
    "A cancellation notifies it at once; {soft} s later an exception is raised inside it. It is never killed: code "
    "that catches the exception runs on."
)
_KILL = (
    "A cancellation notifies it at once; {soft} s later an exception is raised inside it; {hard} s after the "
    "cancellation it is killed, with every process that it started. A worker with the threads pool kills only those "
    "processes. There the tool may run on, which the page of its request then shows."
)
_STOPPING = {
    CancelPolicy.COOPERATIVE: _COOPERATIVE,
    CancelPolicy.INTERRUPT: _INTERRUPT,
    CancelPolicy.KILL: _KILL,
}

QUEUE = (
    "Workers that “mcp serve” or “mcp worker” started without --queues consume a new queue within a few seconds; start "
    "any other worker with it (-Q, --queues). Calls on a queue that no worker consumes wait, and are cancelled when "
    "they have waited too long."
)


def stopping(tool: OfferedTool) -> str:
    """Describe the effect of a cancellation on the tool as it is offered now."""
    sentence = _STOPPING[tool.cancel_policy]
    return sentence.format(soft=f"{tool.cooperative_grace:g}", hard=f"{tool.hard_grace:g}")


def risk(tool: OfferedTool) -> str:
    """Describe the risk of interrupting a tool whose code forbids it. Empty if there is none."""
    declared = tool.registered.cancel_policy
    if declared != CancelPolicy.COOPERATIVE or tool.cancel_policy == CancelPolicy.COOPERATIVE:
        return ""
    return (
        f"The code of {tool.name} says that it must not be interrupted (cooperative only). With "
        f"“{tool.cancel_policy.label}” a cancellation may end it in the middle of its work, and leave it half-done."
    )
