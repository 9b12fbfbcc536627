"""How an agent came to its answer: its calls one by one, and the piece of the knowledge base that it walked, drawn."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any, NamedTuple

from markupsafe import Markup

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.files.datasets import Id, read_json
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.reports.page import TEMPLATES
from kbbench_hf.reports.tables import interval, label, number
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.score import RUN
from kbbench_hf.scoring.trajectories import Call, Trajectory, start_of

BOX, GAP, LINE = 172, 96, 46
"""Width of a node, of an edge, and height of a row, in pixels: three hops from a search fit on a page."""
IN_BOX, ON_ARROW = 22, 15
"""Letters that fit into a box, and beside an arrow; the whole text is its title."""
N_HEADLINE = 4
"""Figures that are shown beside the base's."""
MOST_ROWS = 40
"""Of a picture."""
MOST_NAMED = 6
"""Nodes of a result that the list of calls names."""
ENDS = {
    "finished": "The agent finished.",
    "step_limit": "It ran into the limit of steps or calls.",
    "no_call": "It stopped calling tools without finishing.",
    "stuck": "It met nothing but errors.",
    "budget": "The budget was spent.",
    "failed": "The model could not be reached, or gave no answer.",
}
"""What became of a question, in words."""


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


class Walked(NamedTuple):
    """A picture: its boxes and arrows, its size, and how many rows did not fit."""

    boxes: list[Box]
    arrows: list[Arrow]
    width: int
    height: int
    n_left_out: int


def trajectory(walk: Trajectory, gold: Sequence[Id], kb: KnowledgeBase) -> Markup:
    """Return what stands below an example: the picture, how it ended, and every call."""
    picture = drawn(walk, gold, kb)
    names = _Names(kb)
    return Markup(  # noqa: S704  made by a template that escapes
        TEMPLATES.get_template("trajectory.html.jinja").render(
            picture=picture,
            box=BOX,
            gap=GAP,
            said=_said(walk, gold),
            facts=_facts(walk),
            calls=[_call(call, gold, names) for call in walk.calls],
        )
    )


def totals(walks: Sequence[Trajectory]) -> list[tuple[str, str]]:
    """Return what an agent did over all questions, as rows of a table; means are of a question."""
    n = len(walks)
    errors = Counter[str]()
    for walk in walks:
        errors.update(walk.tool_errors)
    ends = Counter(walk.end for walk in walks)
    rows = [
        ("questions", f"{n:,}"),
        ("steps", _mean([walk.steps for walk in walks])),
        ("tool calls", _mean([len(walk.calls) for walk in walks])),
        ("tool errors", ", ".join(f"{code} {count:,}" for code, count in errors.most_common()) or "none"),
        ("arguments read kindly", f"{sum(call.repaired for walk in walks for call in walk.calls):,}"),
        ("nodes seen", _mean([walk.seen for walk in walks])),
        ("ended", ", ".join(f"{end} {count:,}" for end, count in ends.most_common())),
        ("answered by the base alone", _share(sum(walk.backed_off for walk in walks), n)),
    ]
    known = [walk for walk in walks if walk.answer_seen is not None]
    if known:
        seen = [walk for walk in known if walk.answer_seen]
        rows.append(("a right answer was seen", _share(len(seen), len(known))))
        rows.append(("and then selected", _share(sum(bool(walk.answer_selected) for walk in seen), len(seen))))
    for words, values in (
        ("prompt tokens", [walk.prompt_tokens for walk in walks]),
        ("completion tokens", [walk.completion_tokens for walk in walks]),
        ("cost, USD", [walk.cost_usd for walk in walks]),
        ("seconds", [walk.seconds for walk in walks]),
    ):
        if there := [value for value in values if value is not None]:
            rows.append((words, _mean(there)))
    return rows


def beside_base(folder: Path, benchmark: Benchmark) -> list[list[str]]:
    """Return the headline figures of an agent's run beside its base's, as rows of a table; empty without the base.

    Each has both figures, their difference with its interval at 95 %, the p-value of the paired test, and on how many
    questions the agent is better, equal and worse.
    """
    base = read_json(folder / RUN).get("base")
    if not base or not (folder.parent / base / "predictions.jsonl").is_file():
        return []
    found = compare(folder, folder.parent / base)
    headline = [metric for metric in benchmark.metrics if metric in found.tests][:N_HEADLINE]
    return [
        [
            label(benchmark, metric),
            number(found.b.scores[metric].value),
            number(found.a.scores[metric].value),
            f"{test.difference:+.4f} {interval(test.ci95)}",
            f"{test.p_value:.4f}",
            f"{test.wins:,} / {test.ties:,} / {test.losses:,}",
        ]
        for metric, test in ((each, found.tests[each]) for each in headline)
    ]


def drawn(walk: Trajectory, gold: Sequence[Id], kb: KnowledgeBase) -> Walked:
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
    return Walked(kept, [each for each in arrows if each.to < height], width, height, max(0, n_rows - MOST_ROWS))


class _Names:
    """The names of nodes by their ids, as a text: `Treacle (80)`."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    def __getitem__(self, node_id: object) -> str:
        row = None
        if isinstance(node_id, int | str) and not isinstance(node_id, bool):
            row = self.kb.row_of(node_id)
        name = self.kb.names([row])[0] if row is not None else ""
        return f"{name} ({node_id})" if name else str(node_id)


def _tree(walk: Trajectory, gold: Sequence[Id], kb: KnowledgeBase) -> list[_Spot]:
    """Return the searches, and below each what was first reached from there and mattered."""
    names, right = _Names(kb), {*gold}
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


def _relation(kb: KnowledgeBase, start: Id, node: Id) -> str:
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


def _said(walk: Trajectory, gold: Sequence[Id]) -> str:
    """Return in a sentence or two what became of the question."""
    words = [ENDS.get(walk.end, walk.end)]
    if walk.backed_off:
        words.append("Nothing was selected: the ranking is that of the base.")
    if walk.answer_seen and not walk.answer_selected:
        words.append("A right answer was shown, and not selected.")
    elif walk.answer_seen is False:
        words.append("No right answer was ever shown.")
    elif walk.answer_selected and walk.selected[0] not in gold:
        words.append("A right answer was selected, but not first.")
    return " ".join(words)


def _facts(walk: Trajectory) -> str:
    facts = [
        f"{n:,} {one}{'' if n == 1 else 's'}"
        for n, one in (
            (walk.steps, "step"),
            (len(walk.calls), "call"),
            (sum(walk.tool_errors.values()), "error"),
        )
    ]
    facts.append(f"{walk.seen:,} seen")
    if walk.prompt_tokens is not None:
        facts.append(f"{walk.prompt_tokens:,} tokens in, {walk.completion_tokens or 0:,} out")
    if walk.cost_usd is not None:
        facts.append(f"{walk.cost_usd:.4f} USD")
    if walk.seconds is not None:
        facts.append(f"{walk.seconds:.1f} s")
    return " · ".join(facts)


def _call(call: Call, gold: Sequence[Id], names: _Names) -> dict[str, Any]:
    """Return a row of the list of calls: its step, the tool, its arguments in words, what came of it."""
    given = call.arguments if isinstance(call.arguments, Mapping) else {"": call.arguments}
    words = []
    for name, value in given.items():
        if name == "node_id":
            words.append(names[value])
        elif name == "node_ids" and isinstance(value, list):
            words.append(", ".join(f"{names[each]}{' ✓' if each in gold else ''}" for each in value[:MOST_NAMED]))
            words.extend([f"+ {len(value) - MOST_NAMED:,}"] if len(value) > MOST_NAMED else [])
        elif name == "query":
            words.append(f"“{value}”")
        else:
            words.append(f"{name} {json.dumps(value, ensure_ascii=False)}".strip())
    came = ""
    if call.error:
        came = call.error.replace("_", " ")
    elif call.total is not None:
        listed = [f"{names[node]}{' ✓' if node in gold else ''}" for node in call.shown[:MOST_NAMED]]
        more = [f"+ {len(call.shown) - MOST_NAMED:,}"] if len(call.shown) > MOST_NAMED else []
        came = f"{len(call.shown):,} of {call.total:,}: {', '.join([*listed, *more])}" if listed else "nothing"
    return {"step": call.step, "tool": call.tool, "given": "; ".join(words), "came": came, "wrong": bool(call.error)}


def _mean(values: Sequence[float]) -> str:
    """Return a mean and the range of nine tenths, where there are enough to say it."""
    if not values:
        return "-"
    mean = f"{fmean(values):,.4g}"
    if len(values) < 20:
        return mean
    cuts = quantiles(values, n=20)
    return f"{mean} (nine tenths between {cuts[0]:,.4g} and {cuts[-1]:,.4g})"


def _share(n: int, of: int) -> str:
    return f"{n:,} of {of:,} ({100 * n / of:.1f} %)" if of else "-"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
