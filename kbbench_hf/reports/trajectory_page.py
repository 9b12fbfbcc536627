"""Agent trajectories in a report: tool calls, a drawing of the visited nodes, totals, and the base retriever.

`run_page` uses it, also for runs of external agents, whose arguments may have any type.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.files.datasets import Id, read_json
from kbbench_hf.reports.page import TEMPLATES, Chart, difference_bars
from kbbench_hf.reports.results_table import TEST_HEADS, test_cells, test_legend
from kbbench_hf.reports.tables import label, number
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.eval_task import RUN
from kbbench_hf.scoring.trajectories import Call, Trajectory, start_of

if TYPE_CHECKING:
    from kbbench_hf.knowledge_base.store import KnowledgeBase

BOX, GAP, LINE = 172, 96, 46
"""Width of a node, of an edge, and height of a row, in pixels: three hops from a search fit on a page."""
IN_BOX, ON_ARROW = 22, 15
"""Letters that fit into a box, and next to an arrow; the whole text is its title."""
MOST_ROWS = 40
"""Rows of a picture; further ones are counted."""


@dataclass
class _Spot:
    """A search or a node in the tree of visited nodes; `label` says how it was reached."""

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
    """The arrow from a box to one of the next column, with the relation or rank by which it was reached."""

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
    """Return the picture of a trajectory: searches on the left, then each node that matters where it was first reached.

    A node matters if the agent went on from it, selected it, or if it is gold; of other results, only the number is
    given.
    """
    boxes: list[Box] = []
    arrows: list[Arrow] = []

    def place(spot: _Spot, depth: int, row: int) -> int:
        """Place a spot and those below it; return the next free row."""
        x, y, end = depth * (BOX + GAP), row * LINE, row
        boxes.append(Box(x, y, _truncate(spot.text, IN_BOX), spot.text, spot.kind))
        for below in spot.below:
            arrows.append(Arrow(x + BOX, y, end * LINE, _truncate(below.label, ON_ARROW), below.label))
            end = place(below, depth + 1, end)
        return max(end, row + 1)

    n_rows = 0
    for root in _tree(walk, gold, kb):
        n_rows = place(root, 0, n_rows)
    height = min(n_rows, MOST_ROWS) * LINE
    kept = [box for box in boxes if box.y < height]
    width = max((box.x + BOX for box in kept), default=0)
    return VisitedGraph(kept, [each for each in arrows if each.to < height], width, height, max(0, n_rows - MOST_ROWS))


def node_name(kb: "KnowledgeBase", node_id: object) -> str:
    """Return the name of a node with its id, `Treacle (80)`; the id alone where it has none."""
    is_id = isinstance(node_id, int | str) and not isinstance(node_id, bool)
    row = kb.row_of(node_id) if is_id else None  # type: ignore[arg-type]
    name = kb.names([row])[0] if row is not None else ""
    return f"{name} ({node_id})" if name else str(node_id)


def _tree(walk: Trajectory, gold: Sequence[Id], kb: "KnowledgeBase") -> list[_Spot]:
    """Return the searches, each with the nodes that matter and were first reached from there."""
    right = {*gold}
    order = {node: number for number, node in enumerate(walk.selected, start=1)}
    shown: set[Id] = {node for call in walk.calls for node in call.shown}
    starts = {start_of(call, shown) for call in walk.calls if call.tool == "neighbors" and not call.error}
    matters = starts | order.keys() | right
    kinds = {(True, True): "hit", (True, False): "selected", (False, True): "right", (False, False): "node"}
    roots: list[_Spot] = []
    spots: dict[Id, _Spot] = {}

    def spot(node: Id, label: str) -> _Spot:
        kind = kinds[node in order, node in right]
        rank = f"{order[node]}. " if node in order else ""
        made = spots[node] = _Spot(f"{rank}{node_name(kb, node)}", label, kind)
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


def _truncate(text: str, longest: int) -> str:
    """Return a text of at most so many letters, the last one an ellipsis if it is shortened."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


MOST_NAMED = 6
"""Nodes of a result that the table of calls names."""
ENDS = {
    "finished": "The agent finished.",
    "step_limit": "The agent reached the limit of steps or calls.",
    "no_call": "The agent stopped calling tools without finishing.",
    "stuck": "The agent got only errors.",
    "budget": "The budget was spent.",
    "failed": "The model could not be reached or gave no response.",
}
"""End of a trajectory -> a sentence."""


def trajectory(walk: Trajectory, gold: Sequence[Id], kb: "KnowledgeBase") -> Markup:
    """Return the HTML below an example: the drawing, how the trajectory ended, and every tool call."""
    template = TEMPLATES.get_template("trajectory.html.jinja")
    calls, shown = [_call(call, gold, kb) for call in walk.calls], {"box": BOX, "gap": GAP, "facts": _facts(walk)}
    html = template.render(shown, picture=draw_trajectory(walk, gold, kb), outcome=_outcome(walk, gold), calls=calls)
    return Markup(html)  # noqa: S704  made by a template that escapes


def totals(walks: Sequence[Trajectory]) -> list[tuple[str, str]]:
    """Return the totals of an agent over all questions, as rows (name, value) of a table; means are per question."""
    n = len(walks)
    errors = sum((Counter(walk.tool_errors) for walk in walks), Counter[str]())
    ends = Counter(walk.end for walk in walks)
    rows = [
        ("questions", f"{n:,}"),
        ("steps", _mean([walk.steps for walk in walks])),
        ("tool calls", _mean([len(walk.calls) for walk in walks])),
        ("tool errors", ", ".join(f"{code} {count:,}" for code, count in errors.most_common()) or "none"),
        ("arguments repaired", f"{sum(call.repaired for walk in walks for call in walk.calls):,}"),
        ("nodes seen", _mean([walk.seen for walk in walks])),
        ("ended", ", ".join(f"{end} {count:,}" for end, count in ends.most_common())),
        ("fell back to the base retriever", _share(sum(walk.backed_off for walk in walks), n)),
    ]
    known = [walk for walk in walks if walk.answer_seen is not None]
    if known:
        seen = [walk for walk in known if walk.answer_seen]
        selected = sum(bool(walk.answer_selected) for walk in seen)
        rows.append(("gold node seen", _share(len(seen), len(known))))
        rows.append(("gold node selected, once seen", _share(selected, len(seen))))
    measured = {"prompt_tokens": "prompt tokens", "completion_tokens": "completion tokens", "cost_usd": "cost, USD"}
    for name, words in {**measured, "seconds": "seconds"}.items():
        if there := [value for walk in walks if (value := getattr(walk, name)) is not None]:
            rows.append((words, _mean(there)))
    return rows


def compare_with_base(folder: Path, benchmark: Benchmark) -> dict[str, object] | None:
    """Return the chart of an agent's differences to its base retriever and its legend; None without the base's run.

    Each row has both scores, and the difference, interval and p-value as `Comparison.shown` has them.
    """
    base = read_json(folder / RUN).get("base")
    if not base or not (folder.parent / base / "predictions.jsonl").is_file():
        return None
    found = compare(folder, folder.parent / base)
    tests = found.shown()
    bars, scale = difference_bars([(each.test.difference, *each.test.ci95) for each in tests.values()])
    rows = [
        [label(benchmark, metric), *cells, number(found.a.scores[metric].value), number(found.b.scores[metric].value)]
        for metric, cells in zip(tests, test_cells(tests.values()), strict=True)
    ]
    heads = ["metric", "agent - base", *TEST_HEADS, "agent", "base"]
    return {"chart": Chart(heads, rows, bars, scale), "legend": test_legend(tests, benchmark)}


def _outcome(walk: Trajectory, gold: Sequence[Id]) -> str:
    """Return how a trajectory ended and whether the agent found the gold, in sentences."""
    words = [ENDS.get(walk.end, walk.end)]
    if walk.backed_off:
        words.append("Nothing was selected; the ranking is the base retriever's.")
    if walk.answer_seen and not walk.answer_selected:
        words.append("A gold node was seen but not selected (selection error).")
    elif walk.answer_seen is False:
        words.append("No gold node was seen (search error).")
    elif walk.answer_selected and walk.selected[0] not in gold:
        words.append("A gold node was selected, but not first.")
    return " ".join(words)


def _facts(walk: Trajectory) -> str:
    """Return the counts, tokens, cost and time of a trajectory in one line."""
    counts = {"step": walk.steps, "call": len(walk.calls), "error": sum(walk.tool_errors.values())}
    facts = [f"{n:,} {one}{'' if n == 1 else 's'}" for one, n in counts.items()]
    facts.append(f"{walk.seen:,} seen")
    if walk.prompt_tokens is not None:
        facts.append(f"{walk.prompt_tokens:,} tokens in, {walk.completion_tokens or 0:,} out")
    if walk.cost_usd is not None:
        facts.append(f"{walk.cost_usd:.4f} USD")
    if walk.seconds is not None:
        facts.append(f"{walk.seconds:.1f} s")
    return " · ".join(facts)


def _call(call: Call, gold: Sequence[Id], kb: "KnowledgeBase") -> dict[str, Any]:
    """Return a row of the table of calls: step, tool, arguments and result."""
    given = call.arguments if isinstance(call.arguments, Mapping) else {"": call.arguments}
    words = []

    def listed(nodes: Sequence[Any]) -> tuple[list[str], list[str]]:
        """Return the first nodes by name, and how many more there are."""
        more = [f"+ {len(nodes) - MOST_NAMED:,}"] if len(nodes) > MOST_NAMED else []
        return [f"{node_name(kb, node)}{' ✓' if node in gold else ''}" for node in nodes[:MOST_NAMED]], more

    for name, value in given.items():
        if name == "node_id":
            words.append(node_name(kb, value))
        elif name == "node_ids" and isinstance(value, list):
            first, more = listed(value)
            words += [", ".join(first), *more]
        elif name == "query":
            words.append(f"“{value}”")
        else:
            words.append(f"{name} {json.dumps(value, ensure_ascii=False)}".strip())
    came = ""
    if call.error:
        came = call.error.replace("_", " ")
    elif call.total is not None:
        first, more = listed(call.shown)
        came = f"{len(call.shown):,} of {call.total:,}: {', '.join([*first, *more])}" if first else "nothing"
    return {"step": call.step, "tool": call.tool, "given": "; ".join(words), "came": came, "wrong": bool(call.error)}


def _mean(values: Sequence[float]) -> str:
    """Return a mean, with the 5th and 95th percentiles where there are at least 20 values."""
    mean = f"{fmean(values):,.4g}"
    if len(values) < 20:
        return mean
    cuts = quantiles(values, n=20)
    return f"{mean} (90 % range {cuts[0]:,.4g} to {cuts[-1]:,.4g})"


def _share(n: int, of: int) -> str:
    """Return a number of a total with its percentage; a dash for a total of 0."""
    return f"{n:,} of {of:,} ({100 * n / of:.1f} %)" if of else "-"
