"""`mcp serve` and `mcp worker` freeze the loaded objects. The collector of a site's own process is unchanged."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_app.management.serving import gc_tuning

ROOT = Path(__file__).parents[1]
MOST = 50_000
"""A lower bound for the objects that Django and this app load."""
LOADS_A_SITE = """
import gc, json, weakref
import mcpsite.asgi

class Cycle:
    def __init__(self):
        self.itself = self
"""
TUNES = """
from mcp_app.management.serving import gc_tuning
gc_tuning.tune()
aside, garbage = gc.get_freeze_count(), weakref.ref(Cycle())
gc.collect()
print(json.dumps([aside, garbage() is None, gc.get_threshold()[0]]))
"""


def run(code: str, data: Path) -> list[int]:
    environment = {**os.environ, "MCPSITE_DATA": str(data), "DJANGO_SETTINGS_MODULE": "mcpsite.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    result: list[int] = json.loads(done.stdout)
    return result


def test_what_was_loaded_is_set_aside_and_what_is_made_later_is_collected(tmp_path: Path) -> None:
    aside, collected, youngest = run(LOADS_A_SITE + TUNES, tmp_path)
    assert aside > MOST
    assert collected
    assert youngest == gc_tuning.YOUNG_AFTER


def test_the_process_of_a_site_that_mounts_the_endpoint_is_left_as_it_is(tmp_path: Path) -> None:
    code = "import gc, json; before = gc.get_threshold()[0], gc.get_freeze_count()\n" + LOADS_A_SITE
    code += "print(json.dumps([*before, gc.get_threshold()[0], gc.get_freeze_count()]))"
    *before, threshold, frozen = run(code, tmp_path)
    assert [threshold, frozen] == before


@pytest.mark.parametrize("youngest", [0, 2 * gc_tuning.YOUNG_AFTER])
def test_a_site_that_collects_more_rarely_still_is_left_to_it(youngest: int) -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(youngest, 20, 30)
        gc_tuning.collect_more_rarely()
        assert gc.get_threshold() == (youngest, 20, 30)
    finally:
        gc.set_threshold(*before)
