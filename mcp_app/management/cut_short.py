"""What cuts a command short that is not its own mistake: nobody reads on, Ctrl-C, a database that goes away.

Ends it by a sentence and an exit status, or by the status alone. Refuses to hide anything else.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.core.management.base import CommandError
from django.db import InterfaceError, OperationalError

UNREAD: Final = 1
INTERRUPTED: Final = 130
"""As a shell has it of what SIGINT ended."""


def leave_unread() -> None:
    """After a BrokenPipeError: else the interpreter tries to write the rest when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def cut_short() -> Iterator[None]:
    """Around a command that has no end of its own for these. Raises SystemExit and CommandError in their place."""
    try:
        yield
    except BrokenPipeError:
        leave_unread()
        raise SystemExit(UNREAD) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except (OperationalError, InterfaceError) as error:
        raise CommandError(f"The database cannot be used: {' '.join(str(error).split())}") from error
