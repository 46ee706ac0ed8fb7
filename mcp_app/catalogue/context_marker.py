"""The marker by which a tool asks for its context: a parameter annotated with `Context` or a subclass of it.

The class that tools use, `ToolContext`, lives in the execution room above and inherits from this one.
"""


class Context:
    """Base of what the runner passes to a parameter so annotated; such a parameter is no argument of the tool."""
