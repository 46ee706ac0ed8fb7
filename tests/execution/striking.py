"""Interrupts that come from another thread, as the watcher sends them."""

import threading
import time

from mcp_app.execution.watcher import ASK_TIMES


def interrupt_from_another_thread(interrupter, request_id, *, when: threading.Event) -> threading.Thread:
    def strike():
        when.wait(5)
        # Again, as the watcher does: a signal that comes right before a system call begins does not end that.
        for asked in range(250):
            interrupter.interrupt(request_id, insist=asked > ASK_TIMES)
            if interrupter.raised:
                return
            time.sleep(0.02)

    thread = threading.Thread(target=strike)
    thread.start()
    return thread
