"""Small multiples: the same little picture for each part of the examples, all on one axis."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kbbench_hf.app.drawings import Axis, axis_of
from kbbench_hf.app.html import rendered
from kbbench_hf.leaderboard.table import Figure


class Panel(NamedTuple):
    """One of the pictures: its title, and a line for each figure."""

    title: str
    figures: Mapping[str, tuple[Figure, str]]
    """Name -> figure, and where the name leads; empty where it leads nowhere."""


def multiples(panels: Sequence[Panel], words: str, axis: Axis | None = None) -> str:
    """Return the panels beside each other, on an axis that they share; nothing where there is no figure."""
    axis = axis or axis_of(figure for panel in panels for figure, _ in panel.figures.values())
    if axis is None:
        return ""
    drawn = [
        (panel.title, [(name, figure, axis.bar(figure), href) for name, (figure, href) in panel.figures.items()])
        for panel in panels
        if panel.figures
    ]
    return rendered("multiples", panels=drawn, words=f"{words}, on an axis from {axis.ends}")
