"""The fixture site's tools keep their contract. A subprocess reads them, because the tests' settings differ."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mcp_app.states import CancelPolicy
from tests.everything import gil
from tests.everything.generations import ROOT, command

INTERRUPTED = [CancelPolicy.INTERRUPT, 0, None]
KILLED = [CancelPolicy.KILL, 0, 0.5]
DEFAULT = [CancelPolicy.KILL, None, None]

MEASURING_TOOLS = {
    "add": (["a", "b"], DEFAULT),
    "big": (["bytes"], INTERRUPTED),
    "blocked": (["seconds"], KILLED),
    "cleanup": (["seconds", "path"], INTERRUPTED),
    "count": (["path"], DEFAULT),
    "echo": (["text"], DEFAULT),
    "flood": (["count"], INTERRUPTED),
    "move_counter": (["commit"], DEFAULT),
    "polite": (["seconds", "path"], [CancelPolicy.COOPERATIVE, None, None]),
    "progress": (["steps", "delay"], INTERRUPTED),
    "sleep": (["seconds", "path", "step"], [CancelPolicy.INTERRUPT, 1.0, None]),
    "sleep_sync": (["seconds", "path", "step"], INTERRUPTED),
    "spawn": (["seconds", "path", "step"], KILLED),
    "stubborn": (["seconds", "path", "step"], KILLED),
    "transaction": (["seconds"], INTERRUPTED),
    "trigger_change": ([], DEFAULT),
}

REGISTERED = """
import json, django
django.setup()
from mcp_app.catalogue.registry import registered_tools
print(json.dumps({
    tool.name: [
        list(tool.signature.input_schema.get("properties", {})),
        [tool.cancel_policy, tool.cooperative_grace, tool.hard_grace],
    ]
    for tool in registered_tools().values()
}))
"""


@pytest.fixture(scope="module")
def registered() -> dict[str, list[object]]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.everything.settings"}
    run = subprocess.run(
        [sys.executable, "-c", REGISTERED], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, timeout=30
    )
    tools: dict[str, list[object]] = json.loads(run.stdout)
    return tools


@pytest.mark.parametrize("name", MEASURING_TOOLS)
def test_a_measuring_tool_has_its_promised_parameters_and_policy(
    name: str, registered: dict[str, list[object]]
) -> None:
    assert registered[name] == list(MEASURING_TOOLS[name])


def test_a_grandchild_takes_the_steps(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    subprocess.run(command(0.03, path, 0.01), cwd=ROOT, check=True, timeout=30)
    assert [line.split()[1] for line in path.read_text().splitlines()] == ["0", "1", "2"]


def test_holding_the_gil_is_deaf_to_signals() -> None:
    heard: list[float] = []
    former = signal.signal(signal.SIGUSR1, lambda *_: heard.append(time.monotonic()))
    code = f"import os, signal, time; print(flush=True); time.sleep(0.05); os.kill({os.getpid()}, signal.SIGUSR1)"
    try:
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as sender:
            assert sender.stdout
            sender.stdout.readline()
            until = time.monotonic() + 0.3
            gil.hold(0.3)
        assert len(heard) == 1
        assert heard[0] >= until
    finally:
        signal.signal(signal.SIGUSR1, former)
