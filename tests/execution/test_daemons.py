"""A daemon that a call started dies with the call, although it left its session, lost its parent and has no marker."""

import os
import signal
import sys
import time

import pytest

from mcp_app.execution.stopping import processes
from tests.execution import driver
from tests.execution.site import Site, begin_code, eventually

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.fault("I3"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans"),
]

FORKS = """
def start_daemon(path):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(path + ".new", "w") as file:
                file.write(str(os.getpid()))
            os.rename(path + ".new", path)
            time.sleep(300)
        os._exit(0)
    os.wait()
"""
CLEARED = """
def start_daemon(path):
    script = f"setsid sh -c 'echo $$ > {path}.new; mv {path}.new {path}; exec sleep 300' &"
    subprocess.run(["/bin/sh", "-c", script], env={}, check=True)
"""
WAITS = {
    "cooperative": "while True: ctx.sleep(0.05)",
    "interrupt": "time.sleep(60)",
    "kill": "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})\ntime.sleep(60)",
}


def daemon_of(site: Site, start: str, wait: str, **changes: str | float) -> tuple[str, int]:
    """Run a tool that starts a daemon, then `wait`. Return the ids of the request and the daemon."""
    path = site.data / f"daemon-{time.monotonic_ns()}"
    code = f"{start}\nstart_daemon({str(path)!r})\nwhile not os.path.exists({str(path)!r}): time.sleep(0.005)\n"
    request_id = begin_code(site, f"{code}open(READY, 'w').close()\n{wait}", **changes)
    return request_id, int(path.read_text())


@pytest.mark.parametrize("start", [FORKS, CLEARED], ids=["without exec", "without an environment"])
@pytest.mark.parametrize("stage", WAITS)
def test_I3_a_daemon_is_dead_when_its_call_is_cancelled(one_slot, start, stage):
    grace = 60.0 if stage == "cooperative" else 0.0
    request_id, daemon = daemon_of(one_slot, start, WAITS[stage], cancel_policy="kill", cooperative_grace=grace)
    assert processes.is_alive(daemon)
    one_slot.cancel(request_id)
    ended = one_slot.ended(request_id)
    assert (ended["status"], ended["stage"]) == ("cancelled", stage)
    assert not processes.is_alive(daemon)


def test_I3_a_daemon_is_dead_when_its_worker_has_ended(site):
    worker = site.start_worker(concurrency=1, MCP_TEST_DRAIN="0.1")
    request_id, daemon = daemon_of(site, FORKS, WAITS["kill"], cancel_policy="kill", hard_grace=0.2)
    assert worker.stop(signal.SIGTERM) == 0
    assert site.ended(request_id)["status"] == "cancelled"
    assert not processes.is_alive(daemon)


def test_a_daemon_of_an_earlier_call_is_left_alone(one_slot):
    """It has the id of the earlier call, whose author left it there on purpose. So it survives this cancellation."""
    marked = CLEARED.replace(", env={}", "")
    earlier, daemon = daemon_of(one_slot, marked, "")
    try:
        assert one_slot.ended(earlier)["status"] == "completed"
        for stage in ("interrupt", "kill"):
            later = begin_code(one_slot, f"open(READY, 'w').close()\n{WAITS[stage]}", cancel_policy="kill")
            one_slot.cancel(later)
            assert one_slot.ended(later)["stage"] == stage
            assert processes.is_alive(daemon)
    finally:
        os.kill(daemon, signal.SIGKILL)


UNKILLABLE = """
import ctypes
def start_daemon(path):
    program = "import os, sys, time; os.setuid(65534); print(1, flush=True); time.sleep(300)"
    daemon = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    daemon.stdout.readline()
    without_kill = 0xFFFFFFFF & ~(1 << 5)
    header, capabilities = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.capget(header, capabilities)
    capabilities[0] &= without_kill
    assert libc.capset(header, capabilities) == 0
    open(path, "w").write(str(daemon.pid))
"""
"""A process of another user. This process, which is root's, drops the right to kill it."""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may start another user's process")
def test_I3_a_row_says_what_could_not_be_killed(site):
    site.start_worker(concurrency=1)
    request_id, unkillable = daemon_of(site, UNKILLABLE, WAITS["interrupt"])
    try:
        site.cancel(request_id)
        assert site.ended(request_id)["status"] == "cancelled"
        assert processes.is_alive(unkillable)

        def notes() -> list[str]:
            return [data["message"] for kind, data in site.ask(driver.events, request_id) if kind == "note"]

        [note] = eventually(notes)
        assert all(fact in note for fact in ("could not be killed", "still run"))
    finally:
        os.kill(unkillable, signal.SIGKILL)


REAPS = """
from mcp_app.execution.stopping import processes
processes.ABANDONED_SECONDS = {seconds}
"""


def test_ended_daemons_of_completed_calls_are_reaped(one_slot):
    """The process that adopted them is their parent. They would remain zombies as long as it lives."""
    one_slot.call("python", {"code": REAPS.format(seconds=0)})
    _, daemon = daemon_of(one_slot, FORKS, "")
    os.kill(daemon, signal.SIGKILL)
    eventually(lambda: one_slot.call("pid") and not os.path.exists(f"/proc/{daemon}"), "the end of the zombie")
    one_slot.call("python", {"code": REAPS.format(seconds=60)})
