"""Interface of planners: queries to plan, and candidate plans with scores."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kbbench_hf.knowledge_base.plans import Plan
from kbbench_hf.retrieval.graph_ranker.parsed_query import LinkedQuery
from kbbench_hf.retrieval.graph_ranker.propagation import Vector


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

    def plans(self, queries: Sequence[PlanQuery]) -> list[list[PlanCandidate]]:
        """Return the plans of each query, best first; none where it has no plan."""
        ...
