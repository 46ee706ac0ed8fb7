"""The signal handlers of this process, as C's `signal` module has them.

The standard library's own functions make an enum of each handler, by an exception where it is a function: for a look
before each run that is a twentieth of what the run costs.
"""

import _signal  # type: ignore[import-not-found] # what `signal` is made of
import signal
from typing import Any


def handler_of(number: signal.Signals) -> Any:
    """What `signal.getsignal` returns, numbers for enums."""
    return _signal.getsignal(number)


def unblock(number: signal.Signals) -> None:
    """Have a signal delivered to this thread."""
    _signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
