"""Plans in a report: a drawing of each executed plan with the nodes at every step, and the totals of the losses."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from kbbench_hf.knowledge_base.plans import Execution, Rows, execute
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.reports.page import TEMPLATES, Chart, score_bars
from kbbench_hf.reports.plan_losses import LOSSES, MOST_PLANS, PlannedQuery
from kbbench_hf.reports.tables import interval, number
from kbbench_hf.reports.trajectory_page import NodeNames

BOX, GAP, HEIGHT, ARROW = 146, 10, 38, 40
"""Width of a box and of the space between two, height of a box and of an arrow, in pixels: two paths fit on a phone."""
MOST_SHOWN = 3
"""Queries of each loss that are shown as examples."""


class PlanBox(NamedTuple):
    """A set of nodes in the drawing, in two lines."""

    name: str
    words: str
    kind: str = ""
    """right (has gold nodes), wrong (has none, or rules one out), open (an exclusion or a text) or empty."""
    x: int = 0
    y: int = 0
    width: int = BOX


class PlanGraph(NamedTuple):
    """The drawing of an executed plan: paths from top to bottom, which meet in the answers."""

    boxes: list[PlanBox]
    arrows: list[tuple[int, int, int, str]]
    """Each from the bottom of a box (x, y) to the top of another (y), and a relation."""
    width: int
    height: int


def draw_plan(query: PlannedQuery, done: Execution) -> PlanGraph:
    """Return the drawing of a plan: a column for each path, then its answers, attribute tests, text and ranking."""
    boxes, arrows = list[PlanBox](), list[tuple[int, int, int, str]]()
    columns, step = len(done.walks) * (BOX + GAP) - GAP, HEIGHT + ARROW
    width = max(columns, 2 * BOX + GAP)
    below = max((len(walk) for walk in done.walks), default=0) * step
    for column, walk in enumerate(done.plan.walks):
        x = (width - columns) // 2 + column * (BOX + GAP)
        boxes += [box._replace(x=x, y=place * step) for place, box in enumerate(_path(query, done, column))]
        for place, hop in enumerate(walk.hops, start=1):
            relation = f"{'not ' * hop.negated}{hop.relation} {'↑' if hop.direction == 'in' else '↓'}"
            arrows.append((x + BOX // 2, place * step - ARROW, place * step, relation))
        arrows.append((x + BOX // 2, boxes[-1].y + HEIGHT, below, ""))
    for place, box in enumerate(_answers(query, done)):
        boxes.append(box._replace(y=below + place * step, width=width))
        arrows += [(width // 2, boxes[-1].y - ARROW, boxes[-1].y, "")] * (place > 0)
    return PlanGraph(boxes, arrows, width, boxes[-1].y + HEIGHT)


def _path(query: PlannedQuery, done: Execution, column: int) -> Iterator[PlanBox]:
    """Yield the boxes of a path: where it starts, and the nodes after each hop."""
    walk, (start, *reached) = done.plan.walks[column], done.walks[column]
    of_type = walk.start_type if len(start) == 1 else f"{walk.start_type}, {_nodes(len(start))}"
    yield PlanBox("any" if walk.topic is None else f"“{walk.topic}”", of_type, "" if len(start) else "wrong")
    for hop, rows in zip(walk.hops[:-1], reached[:-1], strict=True):
        yield PlanBox(hop.node_type, _nodes(len(rows)))
    has_gold, last = query.has_gold(reached[-1]), walk.hops[-1]
    if last.negated:
        words = f"{len(reached[-1]):,} ruled out{', gold too' * has_gold}"
        yield PlanBox(last.node_type, words, "wrong" if has_gold else "open")
    else:
        yield PlanBox(last.node_type, _found(query, reached[-1]), "right" if has_gold else "wrong")


def _answers(query: PlannedQuery, done: Execution) -> Iterator[PlanBox]:
    """Yield the boxes below the paths: what is left where they meet and after each attribute test, and the ranking."""
    plan, starts = done.plan, [rows[0] for rows in done.walks]
    for n_tests in range(len(plan.attributes) + 1):
        rows = execute(replace(plan, attributes=plan.attributes[:n_tests]), query.kb, starts).rows
        n_gold = int(np.isin(query.gold, rows).sum())
        name = str(plan.attributes[n_tests - 1]) if n_tests else f"answers: {plan.answer_type}"
        words = f"{_nodes(len(rows))}{' left' * (n_tests > 0)}, {n_gold} of {len(query.gold)} gold"
        yield PlanBox(name, words, "right" if n_gold else "wrong")
    if plan.text:
        yield PlanBox(f"text “{plan.text}”", "not executed: orders the answers", "open")
    gold = {*query.row["answer_ids"]}
    rank = next((place for place, each in enumerate(query.ranking, start=1) if each in gold), None)
    words = "gold is not in the ranking" if rank is None else f"gold at rank {rank:,}"
    name = NodeNames(query.kb)[query.ranking[0]] if query.ranking else "nothing"
    yield PlanBox(f"first: {name}", words, "right" if rank == 1 else "wrong")


def _found(query: PlannedQuery, rows: Rows) -> str:
    return f"{_nodes(len(rows))}, {'gold' if query.has_gold(rows) else 'no gold'}"


def _nodes(n: int) -> str:
    return f"{n:,} node{'s' * (n != 1)}"


def plan_section(query: PlannedQuery) -> Markup:
    """Return the HTML of the plan of a query: its drawing, relaxation, other plans, and where the gold was lost."""
    done, best = query.execution, query.gold_execution
    return Markup(  # noqa: S704  made by a template that escapes
        TEMPLATES.get_template("plan.html.jinja").render(
            loss=LOSSES[query.loss] if query.loss else None,
            unlinked=query.unlinked,
            picture=draw_plan(query, done) if done else None,
            height=HEIGHT,
            remarks=done.remarks if done else (),
            plans=[(each, _found(query, query.execute(each).rows)) for each in query.plans[:MOST_PLANS]],
            gold_plan=(best.plan, _nodes(len(best.rows))) if best else None,
        )
    )


def plan_totals(queries: Sequence[PlannedQuery]) -> dict[str, Any]:
    """Return the chart of the stages at which gold was lost, and rows of the table of losses; empty without plans."""
    if not queries:
        return {}
    losses = [(query, replace(query).loss) for query in queries]  # copies, which let go of the executed plans
    stages = ["gold first", *dict.fromkeys(loss.stage for loss in LOSSES.values())]
    lost = [LOSSES[key].stage if key else stages[0] for _, key in losses]
    shares = {stage: estimate([each == stage for each in lost]) for stage in stages}
    bars, scale = score_bars([(each.value, *each.ci95) for each in shares.values()])
    rows = [[name, number(of.value), interval(of.ci95), f"{lost.count(name):,}"] for name, of in shares.items()]
    ids = {key: [query.row["id"] for query, each in losses if each == key] for key in LOSSES}
    return {
        "n": len(queries),
        "n_relaxed": sum(bool(query.plans and query.plans[0]["relaxations"]) for query in queries),
        "chart": Chart(["stage", "share", "95 % interval", "queries"], rows, bars, scale),
        "losses": [(LOSSES[key], f"{len(each):,}", each[:MOST_SHOWN]) for key, each in ids.items() if each],
    }
