"""Interrupts that come from another thread, as the watcher sends them."""

import threading
import time

from mcp_app.execution.process.watcher import MAX_GENTLE_ATTEMPTS


def interrupt_from_another_thread(interrupter, request_id, *, when: threading.Event) -> threading.Thread:
    def strike():
        when.wait(5)
        # Repeat, as the watcher does, because a signal right before a system call begins does not interrupt that call.
        for asked in range(250):
            interrupter.interrupt(request_id, insist=asked > MAX_GENTLE_ATTEMPTS)
            if interrupter.raised:
                return
            time.sleep(0.02)

    thread = threading.Thread(target=strike)
    thread.start()
    return thread
