"""Query graphs: the part of a knowledge base with a query's linked entities, candidates and the nodes between.

Source: Yasunaga et al., NAACL 2021 (QA-GNN), section 3: the query is a node of its own, adjacent to its entities and to
the candidates. Differs from upstream: nodes between are chosen by their edges, not by a language model; a node has the
score of the first stage in place of that model's.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.protocols import Ranking
from kbbench_hf.retrieval.fusion import min_max
from kbbench_hf.retrieval.graph_ranker.entity_linking import EntityLinker
from kbbench_hf.retrieval.graph_ranker.propagation import Propagation
from kbbench_hf.retrieval.top_k import best, row_mask

Rows = NDArray[np.int64]

QUERY, LINKED, FOUND, BETWEEN = range(4)
"""Kinds of nodes: the query, linked entity, found by the first stage, adjacent to these."""
N_KINDS = 4
N_LINKED = 10
"""Linked entities of a query, the surest first."""
N_NUMBERS = 4
"""Numbers of a node: score of the first stage, confidence of its link, degree, similarity to the query."""
OWN_RELATIONS = 3
"""Relations besides the knowledge base's: self-loops, query to entities, query to nodes found."""


class QueryGraph(NamedTuple):
    """A query and nodes of the knowledge base, the query first; edges are between places in `rows`."""

    rows: Rows
    """-1 for the query, then the nodes, ascending."""
    kinds: Rows
    numbers: NDArray[np.float32]
    """Shape (nodes, N_NUMBERS); `graph_network.batch_of` fills in the last column."""
    sources: Rows
    targets: Rows
    relations: Rows
    scored: Rows
    """The places of candidates."""


class QueryGraphs:
    """Builds query graphs over one knowledge base.

    Args:
        kb: the knowledge base.
        depth: nodes of the first stage in a graph.
        size: nodes of a graph, the query included.
        candidates: the rows of candidates, ascending; all where None.
    """

    def __init__(self, kb: KnowledgeBase, depth: int, size: int, candidates: Rows | None = None) -> None:
        self.depth, self._size = depth, size
        self._propagation = Propagation(kb.graph)
        self._n_relations = len(kb.graph.relations)
        self.n_relations = OWN_RELATIONS + 2 * self._n_relations
        """Relations of edges: those of the knowledge base in both directions, and own ones."""
        degrees = self._propagation.degrees
        self._degree = (np.log1p(degrees) / max(np.log1p(degrees.max(initial=0)), 1e-12)).astype(np.float32)
        self._linker = EntityLinker(kb.names())
        self._may_answer = row_mask(len(kb), candidates)

    def build(self, queries: Sequence[str], ranking: Ranking) -> list[QueryGraph]:
        """Return the graph of each query; `ranking` is the first stage's ranking, `depth` deep or deeper."""
        return [
            self._build(query, rows[rows >= 0][: self.depth], score[rows >= 0][: self.depth])
            for query, rows, score in zip(queries, ranking.ids, min_max(ranking), strict=True)
        ]

    def _build(self, query: str, found: Rows, scores: NDArray[np.float64]) -> QueryGraph:
        entities = self._linker.link(query)
        surest = np.sort(best(entities.strength, N_LINKED))
        strength = dict(zip(entities.rows[surest].tolist(), entities.strength[surest].tolist(), strict=True))
        score = dict(zip(found.tolist(), scores.tolist(), strict=True))
        core = np.array(sorted({*strength, *score}), np.int64)
        weight = np.array([strength.get(row, 0.0) + score.get(row, 0.0) ** 2 for row in core.tolist()])
        nodes = np.union1d(core, self._between(core, weight, self._size - 1 - len(core)))
        sources, targets, relations = self._edges(nodes)
        kinds = np.array([LINKED if n in strength else FOUND if n in score else BETWEEN for n in nodes.tolist()], int)
        numbers = np.zeros((1 + len(nodes), N_NUMBERS), np.float32)
        numbers[1:, 0] = [score.get(row, 0.0) for row in nodes.tolist()]
        numbers[1:, 1] = [strength.get(row, 0.0) for row in nodes.tolist()]
        numbers[1:, 2] = self._degree[nodes]
        own = np.arange(1 + len(nodes))
        ends = 1 + np.flatnonzero(kinds != BETWEEN)
        kind = kinds[ends - 1]  # relation 1 leads to entities, relation 2 to nodes found
        zero = np.zeros_like(ends)
        return QueryGraph(
            np.concatenate([[-1], nodes]),
            np.concatenate([[QUERY], kinds]),
            numbers,
            np.concatenate([own, zero, ends, sources + 1]),
            np.concatenate([own, ends, zero, targets + 1]),
            np.concatenate([np.zeros_like(own), kind, kind, relations]),
            1 + np.flatnonzero(self._may_answer[nodes]),
        )

    def _between(self, core: Rows, weight: NDArray[np.float64], n: int) -> Rows:
        """Return the `n` nodes with the strongest edges to the core; nodes of high degree pass on less."""
        if n <= 0:
            return np.zeros(0, np.int64)
        passed = weight * self._propagation.passing[core]
        edges = [side.edges(core) for side in self._propagation.sides]
        rows, position = np.unique(np.concatenate([each.rows for each in edges]), return_inverse=True)
        total = np.bincount(position, np.concatenate([passed[each.places] for each in edges]), len(rows)).astype(float)
        total[np.isin(rows, core)] = 0
        chosen = best(total, n)
        return rows[chosen[total[chosen] > 0]].astype(np.int64)

    def _edges(self, nodes: Rows) -> tuple[Rows, Rows, Rows]:
        """Return the edges among nodes as places and relations, each in both directions."""
        places, relations, rows = self._propagation.sides[0].edges(nodes)
        to = np.minimum(np.searchsorted(nodes, rows), len(nodes) - 1)
        keep = nodes[to] == rows
        heads, tails, relation = places[keep], to[keep], relations[keep] + OWN_RELATIONS
        if len(self._propagation.sides) == 1:  # every edge is there in both directions
            return heads, tails, relation
        return (
            np.concatenate([heads, tails]),
            np.concatenate([tails, heads]),
            np.concatenate([relation, relation + self._n_relations]),
        )


def choices(graph: QueryGraph) -> list[QueryGraph]:
    """Return a graph for each candidate: the query, its entities, the candidate and its neighbors.

    They are parts of the one graph of the query; each scores its one node.
    """
    low, high = np.minimum(graph.sources, graph.targets), np.maximum(graph.sources, graph.targets)
    of_query = (low == 0) & (high > 0)
    graphs = []
    for position in graph.scored.tolist():
        keep = graph.kinds <= LINKED
        keep[position] = True
        keep[graph.targets[(low > 0) & (graph.sources == position)]] = True
        new = np.cumsum(keep) - 1
        own = (graph.kinds[high] == LINKED) | (high == position)  # other nodes found are no candidates here
        edges = keep[low] & keep[high] & (own | ~of_query)
        graphs.append(
            QueryGraph(
                graph.rows[keep],
                graph.kinds[keep],
                graph.numbers[keep],
                new[graph.sources[edges]],
                new[graph.targets[edges]],
                graph.relations[edges],
                new[[position]],
            )
        )
    return graphs
