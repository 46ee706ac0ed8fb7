"""The signal handlers of this process, as C has them.

The standard library's own functions make an enum of each handler, by an exception where it is a function: for a look
before each run that is a twentieth of what the run costs. `signal` is these functions with that around them, and keeps
no way past it.
"""

import _signal  # type: ignore[import-not-found] # typeshed describes `signal` alone
import signal
from typing import Any


def handler_of(number: signal.Signals) -> Any:
    """What `signal.getsignal` returns, numbers for enums."""
    return _signal.getsignal(number)


def unblock(number: signal.Signals) -> None:
    """Have a signal delivered to this thread."""
    _signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
