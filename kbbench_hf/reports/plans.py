"""Plans in a report: drawings of executed plans, and the first stage at which each query lost its gold.

The stages are checked in this order, for each query whose first node is not gold:

no entity
    There is no linked entity, no plan, and no gold plan: the query names no entity, or linking missed it.
linking
    An entity of the gold plan is not linked. Without gold plans: the answers of the executed plan have no gold node,
    and no linked entity is within three edges of a gold node, the longest path of generated questions.
plan
    There is no plan; or its answers have no gold node; or the first node is an answer of the executed plan, but not of
    the gold plan.
execution
    The answers have no gold node, because a path was cut at the bound on edges, or an attribute test removed it.
fusion
    The answers have a gold node, but another node is first.

`run_page` uses it. The plans are those in the explanations of a run. They are executed again; no model runs. The order
of the checks decides the published shares of losses.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import Id, Row, read_json
from kbbench_hf.knowledge_base.plans import Execution, Plan, Rows, execute
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.reports.page import TEMPLATES, Chart, score_bars
from kbbench_hf.reports.tables import interval, number
from kbbench_hf.reports.trajectory_page import node_name
from kbbench_hf.scoring.eval_task import RUN
from kbbench_hf.scoring.score import EXPLANATIONS, read_explanations

MOST_PLANS = 4
"""Plans of a query that are executed and shown; the others have low scores."""

BOX, GAP, HEIGHT, ARROW = 146, 10, 38, 40
"""Width of a box and of the space between two, height of a box and of an arrow, in pixels: two paths fit on a phone."""
MOST_SHOWN = 3
"""Queries of each loss that are shown as examples."""


class Loss(NamedTuple):
    """A way to lose the gold: the stage, what happened, and what to improve."""

    stage: str
    what: str
    remedy: str


_LINKING = "Compare the wording of the queries with the names of the nodes, and give nodes their usual names."
_PLANNING = "Train a planner on questions of kbbench synthesize, or use a larger model. Compare the plans below."
LOSSES = {
    "no entity": Loss("no entity", "No entity is linked, and there is no plan.", "Use a stronger text retriever."),
    "unlinked": Loss("linking", "An entity of the gold plan is not linked.", _LINKING),
    "far": Loss("linking", "No linked entity is within three edges of a gold node.", _LINKING),
    "no plan": Loss("plan", "The planner made no plan.", _PLANNING),
    "other plan": Loss("plan", "Another plan of the query leads to the gold, with a lower score.", _PLANNING),
    "other nodes": Loss("plan", "No plan leads to the gold.", _PLANNING),
    "loose": Loss("plan", "An answer of the plan is first that the gold plan does not have.", _PLANNING),
    "cut": Loss("execution", "A path was cut at the bound on edges.", "Split relations that have hubs."),
    "test": Loss("execution", "An attribute test removed the gold.", "Check the values and units of the column."),
    "within": Loss("fusion", "Another answer of the plan is first.", "Use a stronger text retriever, or --rerank."),
    "outside": Loss("fusion", "A node that is no answer of the plan is first.", "Use a planner with surer plans."),
}
"""Kind of loss -> its stage, what happened, and what to improve; in the order of the stages."""


@dataclass(frozen=True)
class PlannedQuery:
    """A query with its ranking, and its plans as `protocols.RankingExplanation` has them."""

    kb: KnowledgeBase
    row: Row
    """Of the dataset; `plan` is the gold plan where there is one."""
    ranking: Sequence[Id]
    linked_ids: Sequence[Id]
    plans: Sequence[Mapping[str, Any]]

    @cached_property
    def execution(self) -> Execution | None:
        """The executed plan; None where the planner made none."""
        return self.execute(self.plans[0]) if self.plans else None

    @cached_property
    def gold_execution(self) -> Execution | None:
        """The executed gold plan; None where the dataset has none."""
        return execute(Plan.parse(self.row["plan"]), self.kb) if self.row.get("plan") else None

    @cached_property
    def gold(self) -> Rows:
        """The rows of the gold nodes."""
        return self._rows(self.row["answer_ids"])

    @cached_property
    def linked(self) -> Rows:
        """The rows of the linked entities, and of the nodes from which the executed plan starts."""
        done = self.execution
        pairs = zip(done.plan.walks, done.walks, strict=True) if done else ()
        return np.concatenate([self._rows(self.linked_ids), *(rows[0] for walk, rows in pairs if walk.topic)])

    @cached_property
    def unlinked(self) -> list[str]:
        """The entities of the gold plan that are neither linked nor started from."""
        best = self.gold_execution
        wanted = zip(best.plan.walks, best.walks, strict=True) if best else ()
        missing = (walk.topic for walk, rows in wanted if walk.topic and not np.isin(rows[0], self.linked).any())
        return list(dict.fromkeys(missing))

    @cached_property
    def loss(self) -> str | None:
        """The key in `LOSSES`; None where a gold node is first."""
        first = self._rows(self.ranking[:1])
        if self.has_gold(first):
            return None
        if self.unlinked:
            return "unlinked"
        done, best = self.execution, self.gold_execution
        if done is not None and self.has_gold(done.rows):
            if not np.isin(first, done.rows).any():
                return "outside"
            return "within" if best is None or np.isin(first, best.rows).any() else "loose"
        if best is None and not (len(self.linked) or done):
            return "no entity"
        if best is None and len(self.linked) and not self._is_near():
            return "far"
        if done is None:
            return "no plan"
        if self.has_gold(execute(replace(done.plan, attributes=()), self.kb, [rows[0] for rows in done.walks]).rows):
            return "test"
        # One remark is on each name that no node has, the others are on paths that were cut.
        n_cut = len(done.remarks) - sum(not len(rows[0]) for rows in done.walks)
        if n_cut:
            return "cut"
        others = self.plans[1:MOST_PLANS]
        return "other plan" if any(self.has_gold(self.execute(each).rows) for each in others) else "other nodes"

    def execute(self, explained: Mapping[str, Any]) -> Execution:
        """Return the execution of one of the plans.

        Raises:
            DataError: it is not a plan of the knowledge base; the message names the query.
        """
        starts = [each if each is None else np.sort(self._rows(each)) for each in explained["starts"]]
        try:
            return execute(Plan.parse(explained["plan"]), self.kb, starts)
        except UsageError as error:
            raise DataError(
                f"{EXPLANATIONS}: query {self.row['id']!r} has the plan {explained['plan']!r}: {error} Expected the "
                f"plans that the run wrote. Restore the file, or repeat the run."
            ) from None

    def has_gold(self, rows: Rows) -> bool:
        """Return whether a gold node is among the rows."""
        return bool(np.isin(self.gold, rows).any())

    def _is_near(self) -> bool:
        """Return whether a gold node is within three edges of a linked entity."""
        linked, gold = self.kb.graph.k_hop(self.linked, 1)[0], self.kb.graph.k_hop(self.gold, 2)[0]
        return bool(np.isin(linked, gold).any())

    def _rows(self, ids: Sequence[Id]) -> Rows:
        """Return the rows of ids in their order; ids of no node are left out."""
        rows = (self.kb.row_of(each) for each in ids)
        return np.array([row for row in rows if row is not None], np.int64)


def read_planned(folder: Path, rows: Sequence[Row], rankings: Sequence[Any], kb: Path) -> dict[Id, PlannedQuery]:
    """Return id -> query of a run, for queries with plans; empty if another knowledge base is installed.

    Args:
        folder: the run.
        rows: the examples.
        rankings: the ranking of each; None where there is none.
        kb: the folder of the knowledge base.
    """
    explained = {each["id"]: (each["linked"], each["plans"]) for each in read_explanations(folder) if "plans" in each}
    if not explained:
        return {}
    opened = KnowledgeBase.open(kb)
    if opened.hash != read_json(folder / RUN)["settings"]["knowledge_base"]:
        return {}
    pairs = (pair for pair in zip(rows, rankings, strict=True) if pair[0]["id"] in explained)
    return {row["id"]: PlannedQuery(opened, row, ranking or (), *explained[row["id"]]) for row, ranking in pairs}


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
        boxes += [box._replace(x=x, y=place * step) for place, box in enumerate(_path_boxes(query, done, column))]
        for place, hop in enumerate(walk.hops, start=1):
            relation = f"{'not ' * hop.negated}{hop.relation} {'↑' if hop.direction == 'in' else '↓'}"
            arrows.append((x + BOX // 2, place * step - ARROW, place * step, relation))
        arrows.append((x + BOX // 2, boxes[-1].y + HEIGHT, below, ""))
    for place, box in enumerate(_answer_boxes(query, done)):
        boxes.append(box._replace(y=below + place * step, width=width))
        arrows += [(width // 2, boxes[-1].y - ARROW, boxes[-1].y, "")] * (place > 0)
    return PlanGraph(boxes, arrows, width, boxes[-1].y + HEIGHT)


def _path_boxes(query: PlannedQuery, done: Execution, column: int) -> Iterator[PlanBox]:
    """Yield the boxes of a path: where it starts, and the nodes after each hop."""
    walk, (start, *reached) = done.plan.walks[column], done.walks[column]
    of_type = walk.start_type if len(start) == 1 else f"{walk.start_type}, {_count_nodes(len(start))}"
    yield PlanBox("any" if walk.topic is None else f"“{walk.topic}”", of_type, "" if len(start) else "wrong")
    for hop, rows in zip(walk.hops[:-1], reached[:-1], strict=True):
        yield PlanBox(hop.node_type, _count_nodes(len(rows)))
    has_gold, last = query.has_gold(reached[-1]), walk.hops[-1]
    if last.negated:
        words = f"{len(reached[-1]):,} ruled out{', gold too' * has_gold}"
        yield PlanBox(last.node_type, words, "wrong" if has_gold else "open")
    else:
        yield PlanBox(last.node_type, _count_with_gold(query, reached[-1]), "right" if has_gold else "wrong")


def _answer_boxes(query: PlannedQuery, done: Execution) -> Iterator[PlanBox]:
    """Yield the boxes below the paths: nodes that all paths reach, those left by each attribute test, the ranking."""
    plan, starts = done.plan, [rows[0] for rows in done.walks]
    for n_tests in range(len(plan.attributes) + 1):
        rows = execute(replace(plan, attributes=plan.attributes[:n_tests]), query.kb, starts).rows
        n_gold = int(np.isin(query.gold, rows).sum())
        name = str(plan.attributes[n_tests - 1]) if n_tests else f"answers: {plan.answer_type}"
        words = f"{_count_nodes(len(rows))}{' left' * (n_tests > 0)}, {n_gold} of {len(query.gold)} gold"
        yield PlanBox(name, words, "right" if n_gold else "wrong")
    if plan.text:
        yield PlanBox(f"text “{plan.text}”", "not executed: orders the answers", "open")
    gold = {*query.row["answer_ids"]}
    rank = next((place for place, each in enumerate(query.ranking, start=1) if each in gold), None)
    words = "gold is not in the ranking" if rank is None else f"gold at rank {rank:,}"
    name = node_name(query.kb, query.ranking[0]) if query.ranking else "nothing"
    yield PlanBox(f"first: {name}", words, "right" if rank == 1 else "wrong")


def _count_with_gold(query: PlannedQuery, rows: Rows) -> str:
    """Return the number of nodes, and whether gold is among them, in words."""
    return f"{_count_nodes(len(rows))}, {'gold' if query.has_gold(rows) else 'no gold'}"


def _count_nodes(n: int) -> str:
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
            plans=[(each, _count_with_gold(query, query.execute(each).rows)) for each in query.plans[:MOST_PLANS]],
            gold_plan=(best.plan, _count_nodes(len(best.rows))) if best else None,
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
