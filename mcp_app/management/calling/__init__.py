"""`mcp call`: a tool called from a terminal, as a durable call like any other, and followed to its end.

command    whose call it is, of what; its checks
arguments  from the words of a command line to the arguments object
session    one run: the call, its worker, signals, how it ends
own_call   a client of the modern era in the server process itself, without a wire
questions  what the tool asks, asked at the terminal
display    what is said meanwhile, on standard error
ending     what came of it: standard output and the exit status
worker     the worker of its own, where none is alive, and its log
"""

from mcp_app.management.calling.command import Options, UsageError, call
from mcp_app.management.calling.session import Wishes

__all__ = ["Options", "UsageError", "Wishes", "call"]
