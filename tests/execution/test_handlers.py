"""What C has of a signal is what Python says of it, at less cost."""

import signal
from typing import Any

import pytest

from mcp_app.execution.handlers import handler_of, unblock


def handle(number: int, frame: Any) -> None:
    pass


@pytest.fixture
def number() -> Any:
    former = signal.getsignal(signal.SIGUSR2)
    yield signal.SIGUSR2
    signal.signal(signal.SIGUSR2, former)


@pytest.mark.parametrize("handler", [handle, signal.SIG_IGN, signal.SIG_DFL])
def test_a_handler_is_who_was_installed(number: signal.Signals, handler: Any) -> None:
    signal.signal(number, handler)
    assert handler_of(number) == handler == signal.getsignal(number)


def test_a_signal_that_was_blocked_is_delivered_again(number: signal.Signals) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {number, signal.SIGUSR1})
    try:
        unblock(number)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {number, signal.SIGUSR1} == {signal.SIGUSR1}
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number, signal.SIGUSR1})
