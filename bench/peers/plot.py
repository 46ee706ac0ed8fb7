"""Draws the JSON of a run: `python plot.py RUN.json FILE.svg`. Needs matplotlib, and imports nothing from this project.

A bar is a median. The line over it goes from the smallest to the largest round.
"""

import json
import sys
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

PANELS = (
    ("echo, 16 connections, calls/s", (("echo", "rate_16"), ("tasks", "rate_16"))),
    ("echo, 64 connections, calls/s", (("echo", "rate_64"), ("tasks", "rate_64"))),
    ("echo, 1 connection, p50 ms", (("echo", "p50_1"),)),
    ("tools/list, 16 connections, /s", (("list", "rate"),)),
    ("server/discover, 16 connections, /s", (("discover", "rate"),)),
    ("progress, p50 ms", (("progress", "p50"),)),
    ("memory of a listen stream, kB", (("listen", "kb_each"),)),
    ("one change to all streams, ms", (("listen", "all"),)),
    ("tools that wait: slowest cancellation, ms", (("waiting", "cancel_max"),)),
)
COLOURS = {"ours": "#1f6f8b", "peers": "#c8553d", "floors": "#9a9a9a"}
COLUMNS = 3


def main(source: str, target: str) -> None:
    with open(source, encoding="utf-8") as file:
        run = json.load(file)
    panels = [(title, found) for title, figures in PANELS if (found := _values(run, figures))]
    rows = max(1, -(-len(panels) // COLUMNS))
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(6 * COLUMNS, 3.4 * rows), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (title, found) in zip(axes.flat, panels, strict=False):
        _panel(axis, title, found, run["contenders"])
    rounds = "a quick run: no measurement" if run["quick"] else f"median of {run['rounds']} rounds"
    figure.suptitle(f"{rounds}; {run['machine']}; {run['finished_at']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(target)


def _values(run: dict[str, Any], figures: tuple[tuple[str, str], ...]) -> dict[str, dict[str, Any]]:
    """Return the values of each contender, for the first of the figures that it has."""
    found: dict[str, dict[str, Any]] = {}
    for contender, measures in run["results"].items():
        for measure, figure in figures:
            if figure in measures.get(measure, {}):
                found.setdefault(contender, measures[measure][figure])
    return found


def _panel(axis: Axes, title: str, found: dict[str, dict[str, Any]], contenders: dict[str, Any]) -> None:
    names = sorted(found, key=lambda name: found[name]["median"])
    medians = [found[name]["median"] for name in names]
    low = [max(0.0, found[name]["median"] - min(found[name]["values"])) for name in names]
    high = [max(found[name]["values"]) - found[name]["median"] for name in names]
    colours = [COLOURS[contenders[name]["group"]] for name in names]
    bars = axis.barh(names, medians, xerr=[low, high], color=colours, error_kw={"elinewidth": 1, "ecolor": "#333333"})
    axis.bar_label(bars, labels=[f" {median:,.4g}" for median in medians], fontsize=7)
    axis.set_title(title, fontsize=9)
    axis.tick_params(labelsize=7)
    axis.margins(x=0.18)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


if __name__ == "__main__":
    main(*sys.argv[1:3])
