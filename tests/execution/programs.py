"""Programs that tools run, or start."""

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"])
    os._exit(0)
os.wait()
print("half", flush=True)
time.sleep(60)
"""
"""A program that ignores SIGTERM and has a grandchild outside of its process group."""

SWALLOWING_COROUTINE = """
async def main():
    open(READY, "w").close()
    while True:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            pass
"""
"""Code for `python_async` that goes on when it is cancelled."""
SHIELDED_COROUTINE = """
    async def main():
        with ctx.shield():
            open(READY, "w").close()
            await asyncio.sleep(0.4)
            ctx.partial_result = "whole"
        await asyncio.sleep(30)
"""
