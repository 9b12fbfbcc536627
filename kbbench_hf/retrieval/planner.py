"""Planners: queries to plan, candidate plans with scores, and plans that a served language model writes.

The JSON schema of a model's response is made from the knowledge base for each query: names of linked entities, probable
answer types, and hops that lead on. Several samples per query are scored by their agreement. A response that is cut off
or breaks the schema is no vote.

The plan ranker uses any `Planner`: this one, rules (`plan_rules`) or a trained model (`plan_generator`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.plans import Plan, PlanSchema
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.context import Complete
from kbbench_hf.retrieval.graph_ranker.parsed_query import LinkedQuery
from kbbench_hf.retrieval.graph_ranker.propagation import Vector

LEAST_SURE = 0.25
"""`Planner.least_sure` of rules and of the shares of samples."""
MOST_TOKENS = 400
"""Tokens of a response."""
MOST_HOPS_SHOWN = 60
"""Kinds of edges in a prompt, the most frequent."""
INSTRUCTION = """\
Write a plan that finds the answers of a question in a knowledge base, as JSON.

"answer_type": the type of the answers.
"paths": from named entities to the answers. "start" and "start_type" are the name and type of an entity; each hop \
follows a relation from its head to its tail ("out") or from its tail to its head ("in") to nodes of a type. The last \
type is the answer type. "exclude" is true where answers must not be reached.
"attributes": tests of the answers. "text": other words that the text of an answer should have.

Types and relations, from head to tail:
{relations}

Entities in the question:
{entities}

Question: {query}"""


class PlanQuery(NamedTuple):
    """A query to plan, with what the graph ranker understands of it."""

    text: str
    linked: LinkedQuery
    types: Vector
    """The probability of each node type to be the answer type."""
    text_lead: float
    """How far the best text is ahead of the next, 0 to 1."""
    starts: Sequence[tuple[str, str]]
    """Names and types of linked and of excluded entities, the surest first."""
    answer_types: Sequence[str]
    """The most probable answer types, best first."""


class PlanCandidate(NamedTuple):
    """A plan of a query, and how sure it is: the scores of one query add up to at most 1."""

    plan: Plan
    score: float


class Planner(Protocol):
    """Makes plans of queries."""

    least_sure: float
    """Plans that together are less sure of every node are ignored."""

    def plans(self, queries: Sequence[PlanQuery]) -> list[list[PlanCandidate]]:
        """Return the plans of each query, best first; none where it has no plan."""
        ...


class LLMPlanner:
    """Plans queries to one knowledge base with a language model."""

    least_sure = LEAST_SURE

    def __init__(self, kb: KnowledgeBase, complete: Complete, samples: int) -> None:
        self._schema, self._complete, self._samples = PlanSchema.of(kb), complete, samples
        common = sorted(kb.tuples(), key=lambda each: -each[3])[:MOST_HOPS_SHOWN]
        self._relations = "\n".join(f"{head} -[{relation}]-> {tail}" for head, relation, tail, _ in common)

    def plans(self, queries: Sequence[PlanQuery]) -> list[list[PlanCandidate]]:
        """Return the plans of each query by their share of the samples, best first; none without a linked entity."""
        prompts = {query.text: self.prompt(query) for query in queries if query.starts and query.answer_types}
        responses = self._complete(prompts, self._samples) if prompts else {}
        return [self._candidates(responses.get(query.text, ())) for query in queries]

    def prompt(self, query: PlanQuery) -> Prompt:
        """Return the prompt for one query, with the JSON schema of its response."""
        entities = "\n".join(f"{name} ({kind})" for name, kind in query.starts)
        text = INSTRUCTION.format(relations=self._relations, entities=entities, query=query.text)
        schema = self._schema.json_schema(query.starts, query.answer_types)
        return Prompt([{"role": "user", "content": text}], max_tokens=MOST_TOKENS, json_schema=schema)

    def _candidates(self, responses: Sequence[str]) -> list[PlanCandidate]:
        votes: Counter[Plan] = Counter()
        for response in responses:
            try:
                plan = Plan.parse(response)
                self._schema.check(plan)
            except UsageError:
                continue
            votes[replace(plan, walks=tuple(dict.fromkeys(plan.walks)), text="")] += 1
        return [PlanCandidate(plan, n / self._samples) for plan, n in votes.most_common()]
