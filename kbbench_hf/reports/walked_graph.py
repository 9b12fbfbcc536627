"""Drawing of the nodes that an agent visited: searches on the left, then the nodes to which they led."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kbbench_hf.files.datasets import Id
from kbbench_hf.scoring.trajectories import Trajectory, start_of

if TYPE_CHECKING:
    from kbbench_hf.knowledge_base.store import KnowledgeBase

BOX, GAP, LINE = 172, 96, 46
"""Width of a node, of an edge, and height of a row, in pixels: three hops from a search fit on a page."""
IN_BOX, ON_ARROW = 22, 15
"""Letters that fit into a box, and beside an arrow; the whole text is its title."""
MOST_ROWS = 40
"""Of a picture."""


@dataclass
class _Spot:
    """A search or a node in the tree of what was walked; `label` says how it was reached."""

    text: str
    label: str = ""
    kind: str = "node"
    below: list["_Spot"] = field(default_factory=list)


class Box(NamedTuple):
    """A search or a node at its place."""

    x: int
    y: int
    text: str
    whole: str
    kind: str
    """search, node, selected, right (of the gold, not selected) or hit (both)."""


class Arrow(NamedTuple):
    """How a box was reached from the one before it."""

    x: int
    y: int
    """Where it begins."""
    to: int
    """The height at which it ends, `GAP` further."""
    text: str
    whole: str


class VisitedGraph(NamedTuple):
    """A picture: its boxes and arrows, its size, and how many rows did not fit."""

    boxes: list[Box]
    arrows: list[Arrow]
    width: int
    height: int
    n_left_out: int


def draw_trajectory(walk: Trajectory, gold: Sequence[Id], kb: "KnowledgeBase") -> VisitedGraph:
    """Return the picture of what was walked: searches on the left, and how each node that mattered was first reached.

    A node matters that was walked from, selected, or is of the gold; of the others that were shown, only the number is
    said.
    """
    roots = _tree(walk, gold, kb)
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    n_rows = 0

    def place(spot: _Spot, depth: int) -> None:
        nonlocal n_rows
        x, row = depth * (BOX + GAP), n_rows
        boxes.append(Box(x, row * LINE, _cut(spot.text, IN_BOX), spot.text, spot.kind))
        for nth, below in enumerate(spot.below):
            n_rows += nth > 0
            arrows.append(Arrow(x + BOX, row * LINE, n_rows * LINE, _cut(below.label, ON_ARROW), below.label))
            place(below, depth + 1)

    for nth, root in enumerate(roots):
        n_rows += nth > 0
        place(root, 0)
    n_rows += bool(roots)
    height = min(n_rows, MOST_ROWS) * LINE
    kept = [box for box in boxes if box.y < height]
    width = max((box.x + BOX for box in kept), default=0)
    return VisitedGraph(kept, [each for each in arrows if each.to < height], width, height, max(0, n_rows - MOST_ROWS))


class NodeNames:
    """The names of nodes by their ids, as a text: `Treacle (80)`."""

    def __init__(self, kb: "KnowledgeBase") -> None:
        self.kb = kb

    def __getitem__(self, node_id: object) -> str:
        row = None
        if isinstance(node_id, int | str) and not isinstance(node_id, bool):
            row = self.kb.row_of(node_id)
        name = self.kb.names([row])[0] if row is not None else ""
        return f"{name} ({node_id})" if name else str(node_id)


def _tree(walk: Trajectory, gold: Sequence[Id], kb: "KnowledgeBase") -> list[_Spot]:
    """Return the searches, and below each what was first reached from there and mattered."""
    names, right = NodeNames(kb), {*gold}
    order = {node: number for number, node in enumerate(walk.selected, start=1)}
    shown: set[Id] = {node for call in walk.calls for node in call.shown}
    starts = {start_of(call, shown) for call in walk.calls if call.tool == "neighbors" and not call.error}
    matters = starts | order.keys() | right
    roots: list[_Spot] = []
    spots: dict[Id, _Spot] = {}

    def spot(node: Id, label: str) -> _Spot:
        kind = ("hit" if node in right else "selected") if node in order else "right" if node in right else "node"
        rank = f"{order[node]}. " if node in order else ""
        made = spots[node] = _Spot(f"{rank}{names[node]}", label, kind)
        return made

    for call in walk.calls:
        if call.error or call.total is None:
            continue
        if call.tool == "neighbors":
            start = start_of(call, shown)
            if start not in spots:
                roots.append(spot(start, ""))
            origin = spots[start]
        else:
            query = call.arguments.get("query", "") if isinstance(call.arguments, Mapping) else ""
            origin = _Spot(f"“{query}”", kind="search")
            roots.append(origin)
        for rank, node in enumerate(call.shown, start=1):
            if node in matters and node not in spots:
                label = _relation(kb, start, node) if call.tool == "neighbors" else f"{rank} of {call.total:,}"
                origin.below.append(spot(node, label))
        if origin.kind == "search" and not origin.below:
            origin.below.append(_Spot(f"{call.total:,} found, none taken", kind="nothing"))
    return roots


def _relation(kb: "KnowledgeBase", start: Id, node: Id) -> str:
    """Return the relations between two nodes, and which way they lead."""
    one, other = kb.row_of(start), kb.row_of(node)
    if one is None or other is None:
        return ""
    ways = [
        f"{relation} {'→' if direction == 'out' else '←'}"
        for relation in kb.graph.relations
        for direction in ("out", "in")
        if other in kb.neighbors(one, relation, direction)
    ]
    return ", ".join(ways)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
