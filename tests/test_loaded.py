"""What was loaded before a process serves is set aside from garbage collection; what is made later is not."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_app import loaded

ROOT = Path(__file__).parents[1]
MOST = 50_000
"""Less than Django and this app by themselves."""
SERVES = """
import gc, json, weakref
import mcpsite.asgi

class Cycle:
    def __init__(self):
        self.itself = self

aside, garbage = gc.get_freeze_count(), weakref.ref(Cycle())
gc.collect()
print(json.dumps([aside, garbage() is None, gc.get_threshold()]))
"""


def test_a_server_sets_aside_what_its_site_has_loaded_and_collects_what_is_made_later(tmp_path: Path) -> None:
    environment = {**os.environ, "MCPSITE_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "mcpsite.settings"}
    done = subprocess.run(
        [sys.executable, "-c", SERVES],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    aside, collected, (youngest, *_) = json.loads(done.stdout)
    assert aside > MOST
    assert collected
    assert youngest == loaded.YOUNG_AFTER


@pytest.mark.parametrize("youngest", [0, 2 * loaded.YOUNG_AFTER])
def test_a_site_that_has_itself_looked_through_more_rarely_is_left_to_it(youngest: int) -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(youngest, 20, 30)
        loaded.look_more_rarely()
        assert gc.get_threshold() == (youngest, 20, 30)
    finally:
        gc.set_threshold(*before)
