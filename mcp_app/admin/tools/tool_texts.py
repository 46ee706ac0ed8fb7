"""Sentences about a tool: the effect of a cancellation, and the risk of a setting.

Every value in them is the site's own, and none comes from a client.
"""

from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.states import CancelPolicy

_COOPERATIVE = (
    "Nothing but its own code stops this tool. A cancellation tells it, as does its time limit; it goes on until it "
    "looks (ctx.check(), ctx.progress(), ctx.cancelled …) or ends by itself. The graces are not used."
)
_INTERRUPT = (
    "A cancellation tells it at once; {soft} s later an exception is raised inside it. It is never killed: code that "
    "does not let the exception through goes on."
)
_KILL = (
    "A cancellation tells it at once; {soft} s later an exception is raised inside it; what still runs {hard} s after "
    "the cancellation is killed, with every process that it started. A worker with the threads pool kills only those "
    "processes: there the tool may go on, which its request then says."
)
_STOPPING = {
    CancelPolicy.COOPERATIVE: _COOPERATIVE,
    CancelPolicy.INTERRUPT: _INTERRUPT,
    CancelPolicy.KILL: _KILL,
}

QUEUE = (
    "Workers that “mcp serve” or “mcp worker” started without --queues begin to consume a new queue within a few "
    "seconds; any other worker must be given it (-Q, --queues). Calls on a queue that nobody consumes wait, and are "
    "cancelled when they have waited too long."
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
        f"The code of {tool.name} says that it must not be cut (cooperative only). With “{tool.cancel_policy.label}” a "
        "cancellation may end it in the middle of its work, and what it had begun is left half-done."
    )
