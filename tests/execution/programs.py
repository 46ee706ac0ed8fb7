"""Programs that tools start."""

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
"""Ignores SIGTERM, and has a grandchild that left its group."""
