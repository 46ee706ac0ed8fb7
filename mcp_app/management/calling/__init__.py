"""`mcp call`: calls a tool from a terminal, like any other client, and follows the call to its end.

In reading order:

    command    the options and their checks
    arguments  reads the arguments from the command line
    session    one run: the call, its worker, signals, how it ends
    own_call   a client in the server process itself, without a transport
    questions  asks the tool's questions at the terminal
    display    the running call, on standard error
    ending     the result on standard output, and the exit status
    worker     the worker that is started if none is alive
"""

from mcp_app.management.calling.command import CallOptions, UsageError, call
from mcp_app.management.calling.session import SessionOptions

__all__ = ["CallOptions", "SessionOptions", "UsageError", "call"]
