"""Graph ranker: a retriever that re-ranks by answer type, linked entities and relations, without training.

It starts from the ranking of a base retriever. The score of a node is a sum of signals:

    text        the score of the base, scaled to 0 ... 1
    degree      how well-connected the node is: a little, and in place of the text for types whose nodes have no text
                of their own
    type        the log-probability of its type, relative to the most probable type (`answer_type`)
    one edge    how strongly linked entities are adjacent to it, more by relations that the query mentions
    two edges   the same over one node in between
    found       the same as `one edge`, for the best nodes of the base that are of other types than the answer
    ruled out   minus what adjacency to excluded entities gives ("but not directed by X")
    plan        what plans of the query give to their answers, in a plan ranker

A query that is all entities, types and relations leaves little to texts: `text`, `degree` and `found` count as far as
it has other words. Only nodes with a signal are scored, and as many others of each type as are to be returned. So the
ranking is that of all nodes at the cost of a few.

`retrieval.retrievers` builds it as `graph`; the plan ranker adds plans. The constants were tuned on training and
validation queries, and published scores depend on them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kbbench_hf import protocols
from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.graph import spans
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import Spec, positive
from kbbench_hf.protocols import Edge, Path, Ranking, Retriever
from kbbench_hf.retrieval.context import PART, RetrieverContext, render
from kbbench_hf.retrieval.fusion import min_max
from kbbench_hf.retrieval.graph_ranker.answer_type import AnswerTypePredictor, Texts
from kbbench_hf.retrieval.graph_ranker.parsed_query import LinkedQuery, QueryParser
from kbbench_hf.retrieval.graph_ranker.propagation import NO_SCORES, Propagation, Rows, SparseScores, Vector, distinct
from kbbench_hf.retrieval.top_k import best, pad, row_mask

DEPTH = 1000
"""Depth of the base's ranking; nodes further down have text score 0."""
VOTERS = 50
"""The best nodes of the base that vote for the answer type, and may be mentioned without their name."""
DEGREE_WEIGHT = 0.1
"""Where there is text, the best connected node of a type gains a tenth of the best text."""
TYPE_WEIGHT, LEAST_TYPE = 0.3, 0.1
"""A type that is ten times less probable than the best, or less, costs 0.3 log(10): the best text makes up for it,
since predictions are wrong at times, and entities of one kind may have several types."""
MOST_SURE = 0.3
"""The probability that the base's best node adds to its type, at most (where the next node has text score 0)."""
ONE_EDGE_WEIGHT, TWO_EDGES_WEIGHT = 0.6, 0.4
"""Both together count as much as the best text."""
FOUND_WEIGHT = 0.3
"""What is found by text is less surely meant than a linked entity. Tuned, as is the square of its text score, on
training and validation queries."""
RULED_OUT_WEIGHT = 0.5
"""An exclusion costs nearly what one edge from a linked entity gives."""
N_GOLD, N_TYPES, N_NAMED = 3, 4, 6
"""How many of each an explanation lists, the best first."""
N_PATHS, MAX_BETWEEN = 3, 100
"""Paths of an explanation, and nodes between two others that are looked at for those of least degree."""


def build(spec: Spec, context: RetrieverContext, make: "Callable[..., GraphRanker] | None" = None) -> "GraphRanker":
    """Build `graph:<base>`, or `graph(<base>)@depth=`; `make` makes another ranker of the same arguments."""
    options = spec.read(depth=(positive, DEPTH))
    if len(spec.parts) != 1:
        raise UsageError(f"{str(spec)!r} starts from {len(spec.parts)} models; expected one, as in graph:bm25.")

    def texts(rows: Rows) -> Sequence[str]:
        return render(context.kb, context.own_text, rows, context.forms)

    read: dict[str, dict[str, object]] = {}
    base = replace(context, texts_read=read).part(spec.parts[0])
    context.texts_read.update(read)
    reads_names = bool(read) and all(each["rendering"] == "text" for each in read.values())
    return (make or GraphRanker)(context.kb, base, options["depth"], context.candidates, texts, reads_names)


class GraphRanker:
    """Ranks nodes by text, type, degree and relations.

    Args:
        kb: the knowledge base.
        base: ranks by text.
        depth: how far into the base's ranking to look.
        candidates: the nodes to rank, ascending; all where None.
        texts: gives the texts of nodes, as the base reads them; the column `text` where None.
        reads_names: whether the base reads the names of nodes without text. Entity linking finds these anyway, so
            they count as found by text only where no text is found.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        base: Retriever,
        depth: int = DEPTH,
        candidates: Rows | None = None,
        texts: Texts | None = None,
        reads_names: bool = True,
    ) -> None:
        self._kb, self._base, self._depth = kb, base, min(depth, len(kb))
        self._types = AnswerTypePredictor(kb, texts)
        self._type_ids = np.asarray(kb.graph.type_ids, dtype=np.int64)
        self._edges = Propagation(kb.graph)
        self._parser = QueryParser(kb, self._types, len(self._edges.sides))
        self._no_text = 1 / (1 + self._types.own_words)
        weight, greatest = np.log1p(self._edges.degrees), np.zeros(len(self._types.names))
        np.maximum.at(greatest, self._type_ids, weight)
        self._degree = weight / np.maximum(greatest, 1e-12)[self._type_ids]
        self._has_text = row_mask(len(kb), None)
        if reads_names:
            parts = (kb.texts(np.arange(start, min(start + PART, len(kb)))) for start in range(0, len(kb), PART))
            self._has_text = np.fromiter((bool(text.strip()) for texts in parts for text in texts), bool, len(kb))
        self._is_candidate = row_mask(len(kb), candidates)
        order = np.lexsort((np.arange(len(kb)), -self._degree, self._type_ids))
        self._by_degree = order[self._is_candidate[order]]
        self._starts = np.searchsorted(self._type_ids[self._by_degree], np.arange(len(self._types.names) + 1))

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query; equal scores in the order of the rows."""
        rows = []
        for query, text in self._parse_and_search(queries):
            nodes, signals = self._signals(query, text, top_k)
            total = sum(signals.values(), np.zeros(len(nodes)))
            top = best(total, top_k, nodes)
            rows.append((nodes[top], total[top]))
        return pad(rows, top_k)

    def matched(self, queries: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each query matches a text, by the base, or has a linked entity."""
        parsed = [self._parser.parse(query) for query in queries]
        in_texts = protocols.matched(self._base, [each.parsed.keywords for each in parsed])
        result: NDArray[np.bool_] = in_texts | np.array([len(each.entities.rows) > 0 for each in parsed], dtype=bool)
        return result

    def explain(self, query: str, gold: Rows) -> protocols.RankingExplanation:
        """Return the parsed query, and the signals of its best node and of the first nodes of `gold`.

        Gold nodes without a signal are left out.
        """
        ((linked, text),) = self._parse_and_search([query])
        nodes, signals = self._signals(linked, text, DEPTH)
        total = sum(signals.values(), np.zeros(len(nodes)))
        types = self.answer_types(linked, text)
        entities = linked.entities

        def reasons(position: int) -> protocols.Reasons:
            row = int(nodes[position])
            ((id_,), (name,), (node_type,)) = self._kb.ids([row]), self._kb.names([row]), self._kb.types([row])
            own = {signal: float(values[position]) for signal, values in signals.items()}
            return protocols.Reasons(id_, name, node_type, own, paths(self._kb, entities.rows, row))

        places = best(total, len(total), nodes)
        return protocols.RankingExplanation(
            [" ".join(phrase) for phrase in linked.parsed.phrases],
            [(self._types.names[i], float(types[i])) for i in np.argsort(-types, kind="stable")[:N_TYPES].tolist()],
            self._kb.names(entities.rows[np.argsort(-entities.strength, kind="stable")][:N_NAMED]),
            linked.parsed.excluded,
            reasons(int(places[0])),
            [reasons(int(position)) for position in places[np.isin(nodes[places], gold)][:N_GOLD]],
        )

    def answer_types(self, query: LinkedQuery, text: SparseScores) -> Vector:
        """Return the probability of each node type to be the answer type, shape (types,), in the order of the graph."""
        return self._answer_types(query, text, self._edges.step(query.entities, query.relations))

    def _parse_and_search(self, queries: Sequence[str]) -> list[tuple[LinkedQuery, SparseScores]]:
        """Return each query parsed, and its text scores by the base, best first.

        Nodes without text are left out unless nothing else is found.
        """
        parsed = [self._parser.parse(query) for query in queries]
        ranking = self._base.search([each.parsed.keywords for each in parsed], self._depth)
        texts = []
        for ids, scores in zip(ranking.ids, min_max(ranking), strict=True):
            rows, values = ids[ids >= 0], scores[ids >= 0]
            here = self._has_text[rows]
            if (values[here] > 0).any():
                rows, values = rows[here], values[here]
            texts.append(SparseScores(rows, values))
        return list(zip(parsed, texts, strict=True))

    def _signals(self, query: LinkedQuery, text: SparseScores, top_k: int) -> tuple[Rows, Mapping[str, Vector]]:
        """Return the nodes that may be among the best, in any order, and the values of each signal."""
        entities, excluded = query.entities, query.excluded
        one = self._edges.step(entities, query.relations)
        two = self._edges.step(self._edges.nearest(one), query.relations)
        types = self._answer_types(query, text, one)
        nearby = ruled_out = NO_SCORES
        if len(entities.rows):
            nearby = self._edges.step(self._mentioned_by_text(text, types), query.relations)
        if len(excluded.rows):
            ruled_out = self._edges.step(excluded, self._parser.relation_weights(query.parsed.excluded))
        sure = entities.surest
        highest = self._best_connected(top_k + len(ruled_out.rows) + len(excluded.rows))
        signals = [text, one, two, nearby, ruled_out, SparseScores(*excluded), SparseScores(*entities), query.planned]
        rows, places = distinct([*(each.rows for each in signals), highest], self._is_candidate)

        def dense(scores: SparseScores, place: Rows) -> Vector:
            values = np.zeros(len(rows) + 1)
            values[place] = scores.values  # those of other nodes than candidates fall on the last place
            return values[:-1]

        by_text, by_one, by_two, by_found, by_ruled_out, is_excluded, linked, by_plan = map(dense, signals, places)
        by_two[linked > 0] = 0  # the way back to where it began
        of_type = self._type_ids[rows]
        by_degree = (types * self._no_text)[of_type]
        matching = text.rows[text.values > 0]
        if len(matching) and not self._has_text[matching].any():
            by_degree *= sure  # the base found names, not texts: they count unless others are linked
        unless_reached = np.where((by_one > 0) | (by_two > 0), 1, 1 - sure)
        left = query.text_share
        return rows, {
            "text": left * (1 - by_degree) * by_text,
            "degree": (by_degree * unless_reached + left * DEGREE_WEIGHT * (1 - by_degree)) * self._degree[rows],
            "type": (TYPE_WEIGHT * np.log(np.maximum(types / types.max(), LEAST_TYPE)))[of_type],
            "one edge": ONE_EDGE_WEIGHT * sure * by_one,
            "two edges": TWO_EDGES_WEIGHT * sure * by_two,
            "found": left * FOUND_WEIGHT * sure * by_found,
            "ruled out": -RULED_OUT_WEIGHT * (by_ruled_out + is_excluded),
            **({"plan": by_plan} if len(query.planned.rows) else {}),
        }

    def _answer_types(self, query: LinkedQuery, text: SparseScores, reached: SparseScores) -> Vector:
        """Return the probability of each type, from the query, the best texts and the neighbors of linked entities.

        Linked entities do not vote. The type of the base's best node gains where that is far ahead of the next.
        """
        linked = set(query.entities.rows.tolist())
        first = enumerate(text.rows[: VOTERS + len(linked)].tolist())
        voters = [place for place, row in first if row not in linked][:VOTERS]
        of_type, values = self._type_ids[text.rows[voters]], text.values[voters]
        by_text, by_edges = (
            self._type_shares(of_type, values),
            self._type_shares(self._type_ids[reached.rows], reached.values),
        )
        parsed, left = query.parsed, query.text_share
        types = self._types.probabilities(parsed.phrases, by_text, by_edges, left, parsed.uncued)
        sure = min(left * (values[0] - values[1]) ** 2, MOST_SURE) if len(voters) > 1 else 0.0
        types *= 1 - sure
        types[of_type[:1]] += sure
        return types

    def _type_shares(self, of_type: Rows, values: Vector) -> Vector:
        """Return the share of each type in the sum of values; all 0 where there are none."""
        votes = np.bincount(of_type, values, len(self._types.names)).astype(np.float64, copy=False)
        shares: Vector = votes / max(votes.sum(), 1e-12)
        return shares

    def _mentioned_by_text(self, text: SparseScores, types: Vector) -> SparseScores:
        """Return the nodes that the query may mention without their name, by text; not those of the answer type."""
        values = text.values**2 * (1 - types / types.max())[self._type_ids[text.rows]]
        top = best(values, VOTERS)
        return SparseScores(text.rows[top], values[top])

    def _best_connected(self, n: int) -> Rows:
        """Return the `n` candidates of highest degree of every type."""
        stops = np.minimum(self._starts[:-1] + n, self._starts[1:])
        return self._by_degree[spans(self._starts[:-1], stops)[0]]


def paths(kb: KnowledgeBase, entities: Rows, row: int) -> list[Path]:
    """Return at most three paths from entities to a node: of one edge first, then of two; none from a node to itself.

    >>> import pyarrow as pa
    >>> nodes = pa.table({"id": [0, 1, 2], "type": ["ore", "metal", "coin"], "name": ["Galena", "Lead", "Token"],
    ...                   "text": [""] * 3})
    >>> edges = pa.table({"head": [0, 2], "relation": ["yields", "made of"], "tail": [1, 1]})
    >>> kb = KnowledgeBase.from_arrow(nodes, edges)
    >>> paths(kb, np.array([0]), 2)[0].nodes
    ['Galena', 'Lead', 'Token']
    """
    degrees = kb.graph.without_loops.total_degrees
    back = {node: Edge(edge.relation, not edge.forward) for node, edge in _first_edges(kb, row).items()}
    one: list[tuple[list[int], list[Edge]]] = []
    two: list[tuple[list[int], list[Edge]]] = []
    for start in entities[entities != row].tolist():
        if start in back:
            one.append(([start, row], [back[start]]))
            continue
        out = _first_edges(kb, start)
        between = sorted(out.keys() & back.keys() - {start, row})[:MAX_BETWEEN]
        between.sort(key=lambda node: degrees[node])  # nodes of low degree tell most
        two += [([start, node, row], [out[node], back[node]]) for node in between[:N_PATHS]]
    return [Path(kb.names(rows), edges) for rows, edges in [*one, *two][:N_PATHS]]


def _first_edges(kb: KnowledgeBase, row: int) -> dict[int, Edge]:
    """Return the neighbors of a node, each with the first edge to it."""
    graph = kb.graph.without_loops
    edges: dict[int, Edge] = {}
    for side, forward in ((graph.out, True), (graph.into, False)):
        _, relations, others = side.edges(np.array([row]))
        for relation, other in zip(relations.tolist(), others.tolist(), strict=True):
            edges.setdefault(other, Edge(graph.relations[relation], forward))
    return edges
