"""Small multiples: a panel of bars for each slice of the examples, all on one axis."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kbbench_hf.app.drawings import Axis, axis_of
from kbbench_hf.app.html import rendered
from kbbench_hf.leaderboard.table import Figure


class Panel(NamedTuple):
    """One panel: its title, and a bar for each score."""

    title: str
    figures: Mapping[str, tuple[Figure, str]]
    """Name -> score, and the address that the name links to; may be empty."""


def multiples(panels: Sequence[Panel], words: str, axis: Axis | None = None) -> str:
    """Return the panels side by side on a shared axis; empty without scores."""
    axis = axis or axis_of(figure for panel in panels for figure, _ in panel.figures.values())
    if axis is None:
        return ""
    drawn = [
        (panel.title, [(name, figure, axis.bar(figure), href) for name, (figure, href) in panel.figures.items()])
        for panel in panels
        if panel.figures
    ]
    return rendered("multiples", panels=drawn, words=f"{words} (axis {axis.ends})")
