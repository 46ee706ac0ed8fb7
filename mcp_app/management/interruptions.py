"""Interruptions of a command: closed standard output, Ctrl-C, a database that goes away.

The command then ends with a sentence and an exit status, or with the status alone.
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
"""The status that a shell uses for a program that SIGINT has ended."""


def leave_unread() -> None:
    """Discard unwritten output after a `BrokenPipeError`. The interpreter would try to write it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def handle_interruptions() -> Iterator[None]:
    """Turn interruptions of the block into `SystemExit` and `CommandError`."""
    try:
        yield
    except BrokenPipeError:
        leave_unread()
        raise SystemExit(UNREAD) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except (OperationalError, InterfaceError) as error:
        raise CommandError(f"The database cannot be used: {' '.join(str(error).split())}") from error
