"""Plan ranker: a graph ranker whose queries get plans; the answers of a plan gain by how sure it is.

`plan:rules` plans by rules, `plan:FOLDER` by a trained model, `plan:llm:MODEL` by a served language model. All start
from `graph:bm25`, or from another text ranker, as in `plan:rules(dense:MODEL)`. A plan without answers is relaxed step
by step: without an attribute test, without a path, with another type at its end.
Where no plan is sure, the ranking is that of the graph ranker. `retrieval.retrievers` builds it; the explanations of
runs contain the plans.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbbench_hf import protocols
from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.metapaths import MetapathWalk
from kbbench_hf.knowledge_base.plans import Execution, Plan, PlanSchema, execute, rows_of, write_walk
from kbbench_hf.model_specs import Spec, parse, positive
from kbbench_hf.protocols import PlanExplanation
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.graph_ranker import ranker
from kbbench_hf.retrieval.graph_ranker.parsed_query import LinkedQuery
from kbbench_hf.retrieval.graph_ranker.propagation import Rows, SparseScores
from kbbench_hf.retrieval.graph_ranker.ranker import GraphRanker
from kbbench_hf.retrieval.planner import LLMPlanner, PlanCandidate, Planner, PlanQuery
from kbbench_hf.retrieval.trained_folder import PLAN, trained_folder

PLAN_WEIGHT = 1.0
"""The answers of a plan that is sure gain as much as the best text."""
RELAXED = 0.5
"""What is left of a plan's score after each relaxation."""
MOST_RELAXATIONS = 4
MOST_LINKED = 20
"""Linked entities of an explanation."""
N_TYPES, LEAST_TYPE = 4, 0.02
"""Answer types that a planner may use: the most probable ones, of at least this probability."""
SAMPLES = 5
"""Plans that a language model writes for a query."""


class ExecutedPlan(NamedTuple):
    """A candidate, its execution, and the relaxations before it had answers."""

    candidate: PlanCandidate
    execution: Execution
    relaxations: Sequence[str]

    @property
    def score(self) -> float:
        """How sure it is after its relaxations."""
        return self.candidate.score * RELAXED ** len(self.relaxations)


def build(spec: Spec, context: RetrieverContext) -> "PlanRanker":
    """Build `plan:<source>`, or `plan:<source>(<text ranker>)@depth=,samples=`."""
    options = spec.read(depth=(positive, ranker.DEPTH), samples=(positive, SAMPLES))
    if len(spec.parts) > 1 or any(each.name == "plan" for part in spec.parts for each in part.with_parts()):
        raise UsageError(f"{str(spec)!r} does not start from one text ranker; expected one, as in plan:rules(bm25).")
    graph = Spec("graph", parts=spec.parts or (parse("bm25"),), options={"depth": str(options["depth"])})
    make = partial(PlanRanker, planner=_planner(spec, context, options["samples"]))
    return ranker.build(graph, context, make)  # type: ignore[return-value]


def _planner(spec: Spec, context: RetrieverContext, samples: int) -> Planner:
    """Return the planner that the source of a model's name says."""
    if spec.model == "rules":
        from kbbench_hf.retrieval.plan_rules import RulePlanner

        return RulePlanner(context.kb)
    if spec.model.startswith("llm:"):
        if context.complete is None:
            raise UsageError(f"{str(spec)!r} needs the server of its model; expected --base-url URL. Add it.")
        complete = context.complete(spec.model.removeprefix("llm:"), context.cache)
        return LLMPlanner(context.kb, complete, samples)
    from kbbench_hf.retrieval import plan_generator

    if not spec.model:
        raise UsageError(
            f"{str(spec)!r} names no planner; expected plan:rules, plan:llm:MODEL, or plan:FOLDER of a trained one."
        )
    if get_close_matches(spec.model.lower(), ["rules"], cutoff=0.8) and not Path(spec.model).exists():
        raise UsageError(
            f"Unknown planner {spec.model!r}; expected rules, llm:MODEL or a folder. Did you mean plan:rules?"
        )
    return plan_generator.build(trained_folder(spec.model, PLAN, "plan"), context.kb)


class PlanRanker(GraphRanker):
    """Ranks nodes as the graph ranker does, with the answers of plans above.

    Args:
        planner: makes the plans.
        positional, named: the arguments of `GraphRanker`.
    """

    def __init__(self, *positional: Any, planner: Planner, **named: Any) -> None:
        super().__init__(*positional, **named)
        self._planner, self._schema = planner, PlanSchema.of(self._kb)
        self._executed: dict[str, list[ExecutedPlan]] = {}

    def explain(self, query: str, gold: Rows) -> protocols.RankingExplanation:
        """Return the explanation of the graph ranker, with the linked entities and the plans of the query."""
        explanation = super().explain(query, gold)
        linked = self._parser.parse(query)
        rows = np.concatenate([linked.entities.rows, linked.excluded.rows])[:MOST_LINKED]
        plans = [self._explain_plan(each) for each in self._executed[query]]
        return explanation._replace(linked=self._kb.ids(rows), plans=plans)

    def _explain_plan(self, plan: ExecutedPlan) -> PlanExplanation:
        done = plan.execution
        starts = [
            None if walk.topic is None else self._kb.ids(rows[0])
            for walk, rows in zip(done.plan.walks, done.walks, strict=True)
        ]
        return PlanExplanation(str(done.plan), str(plan.candidate.plan), plan.score, list(plan.relaxations), starts)

    def _parse_and_search(self, queries: Sequence[str]) -> list[tuple[LinkedQuery, SparseScores]]:
        parsed = super()._parse_and_search(queries)
        to_plan = [self._to_plan_query(query, *each) for query, each in zip(queries, parsed, strict=True)]
        plans = [list(map(self._execute, candidates)) for candidates in self._planner.plans(to_plan)]
        self._executed = dict(zip(queries, plans, strict=True))  # of these queries alone: `explain` needs them again
        return [
            (linked._replace(planned=self._score_answers(each)), text)
            for each, (linked, text) in zip(plans, parsed, strict=True)
        ]

    def _to_plan_query(self, query: str, linked: LinkedQuery, text: SparseScores) -> PlanQuery:
        types = self.answer_types(linked, text)
        order = [
            number for number in np.argsort(-types, kind="stable")[:N_TYPES].tolist() if types[number] >= LEAST_TYPE
        ]
        rows = np.concatenate(
            [each.rows[np.argsort(-each.strength, kind="stable")] for each in (linked.entities, linked.excluded)]
        )
        starts = dict.fromkeys(zip(self._kb.names(rows), self._kb.types(rows), strict=True))
        lead = float(text.values[0] - text.values[1]) if len(text.values) > 1 else 0.0
        return PlanQuery(query, linked, types, lead, [*starts], [self._types.names[number] for number in order])

    def _execute(self, candidate: PlanCandidate) -> ExecutedPlan:
        """Execute a plan, relaxed as far as it has no answers."""
        plan, relaxations, known = candidate.plan, list[str](), {candidate.plan}
        done = self._run(plan)
        while not len(done.rows) and len(relaxations) < MOST_RELAXATIONS:
            new = [(each, remark) for each, remark in self._relax(plan) if each not in known]
            if not new:  # types at the end would take turns
                break
            known.update(each for each, _ in new)
            tried = [(self._run(each), remark) for each, remark in new]
            done, remark = next((each for each in tried if len(each[0].rows)), tried[0])
            plan = done.plan
            relaxations.append(remark)
        return ExecutedPlan(candidate, done, relaxations)

    def _run(self, plan: Plan) -> Execution:
        return execute(plan, self._kb, [self._start(walk) for walk in plan.walks])

    def _start(self, walk: MetapathWalk) -> Rows | None:
        """Return the nodes that a walk starts from: those of its name, or else those of its type linked to it."""
        rows = rows_of(self._kb, walk)
        if rows is None or len(rows):
            return rows
        near = self._parser.linker.link(walk.topic or "")
        of_type = self._type_ids[near.rows] == self._kb.graph.type_id(walk.start_type)
        return np.array(near.rows[of_type & (near.strength == near.strength[of_type].max(initial=0.0))], np.int64)

    def _relax(self, plan: Plan) -> Iterator[tuple[Plan, str]]:
        """Yield the plan with one thing less, and what that is."""
        if plan.attributes:
            yield replace(plan, attributes=plan.attributes[:-1]), f"without the test {plan.attributes[-1]}"
        elif len(plan.walks) > 1:
            for walk in sorted(plan.walks, key=lambda each: not each.hops[-1].negated):
                walks = tuple(each for each in plan.walks if each is not walk)
                yield replace(plan, walks=walks), f"without the path {write_walk(walk)}"
        elif plan.walks:
            (walk,) = plan.walks
            *before, last = walk.hops
            for hop in self._schema.hops[before[-1].node_type if before else walk.start_type]:
                if (hop.relation, hop.direction) == (last.relation, last.direction) and hop.node_type != last.node_type:
                    to_other = replace(walk, hops=(*before, replace(last, node_type=hop.node_type)))
                    yield Plan(hop.node_type, (to_other,), (), plan.text), f"with the type {hop.node_type}"

    def _score_answers(self, plans: Sequence[ExecutedPlan]) -> SparseScores:
        """Return the scores of the answers of all plans; none where these are not sure."""
        rows = np.concatenate([np.zeros(0, np.int64), *(each.execution.rows for each in plans)])
        scores = np.repeat([each.score for each in plans], [len(each.execution.rows) for each in plans])
        answers, places = np.unique(rows, return_inverse=True)
        totals = np.bincount(places, scores, len(answers))
        if totals.max(initial=0.0) < self._planner.least_sure:
            answers, totals = answers[:0], totals[:0]
        return SparseScores(answers, PLAN_WEIGHT * totals.astype(np.float64, copy=False))
