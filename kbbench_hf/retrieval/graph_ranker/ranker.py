"""A retriever that uses relations, without any training: what is asked for, who is named, who is joined to them.

It starts from the ranking of another retriever and adds what texts cannot tell. A node's score is the sum of signals:

    text        the base's score, between 0 and 1
    degree      how well-connected it is, which is asked for more often: a little, and in place of the text for types
                whose nodes have no texts of their own, as far as the question asks for the type
    type        how much less likely its type is to be asked for than the likeliest, as a logarithm (`answer_type`)
    one edge    how strongly nodes that the question names are joined to it, more by relations that it speaks of
    two edges   the same over one node in between
    found       by one edge, the same for nodes beside them that it does not name in so many words: the best of the
                base, of other types
    ruled out   what joins it to nodes that the question rules out ("but not directed by X"), against it

A question that says all it asks by names, types and relations leaves little to texts: text, degree and what is found
count as far as it has other words.

What is misspelt is read as it was meant (`spelling`). What the question sets aside or rules out, and the words with
which it asks, are not asked of the base (`question`).
Only nodes that a signal touches are looked at, and of each type as many more as are asked for: the ranking is that of
all nodes, at the cost of a few.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kbbench_hf import protocols
from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.graph import spans
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import Spec, positive
from kbbench_hf.protocols import Edge, Path, Ranking, Retriever
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.fusion import min_max
from kbbench_hf.retrieval.graph_ranker.answer_type import AnswerTypes, Texts
from kbbench_hf.retrieval.graph_ranker.parsed_query import Asked, Questions
from kbbench_hf.retrieval.graph_ranker.propagation import NOTHING, Rows, Sparse, Spreading, Vector, distinct
from kbbench_hf.retrieval.node_texts import render
from kbbench_hf.retrieval.top_k import best, pad

DEPTH = 1000
"""How far into the base's ranking to look; nodes further down have text score 0."""
VOTERS = 50
"""The best of the base: their types say what is asked for where the wording does not, and they may be spoken of."""
DEGREE_WEIGHT = 0.1
"""Where there is text, the best connected of a type gains a tenth of the best text."""
TYPE_WEIGHT, LEAST_TYPE = 0.3, 0.1
"""Others than the likeliest type lose 0.3 log of how much less likely they are, ten times at most: less than the best
text makes up for, since readings are wrong, and nodes of one kind may have several types."""
MOST_SURE = 0.3
"""The most that the base's best node says for its type, where the next has no text score at all."""
ONE_EDGE_WEIGHT, TWO_EDGES_WEIGHT = 0.6, 0.4
"""To be joined to what is named counts about half of the best text; both ways together as much as it."""
FOUND_WEIGHT = 0.3
"""What is found is less sure to be meant than what is named. Chosen, as the square of its text score, on training and
validation questions."""
RULED_OUT_WEIGHT = 0.5
"""What is joined to something ruled out loses about what joining gives."""
N_GOLD, N_TYPES, N_NAMED = 3, 4, 6
"""How many an explanation says, the best first."""


def build(spec: Spec, context: RetrieverContext) -> "GraphRanker":
    """Build `graph:<base>`, or `graph(<base>)@depth=` with options of its own."""
    options = spec.read(depth=(positive, DEPTH))
    if len(spec.parts) != 1:
        raise UsageError(f"{str(spec)!r} starts from {len(spec.parts)} models; expected one, as in graph:bm25.")

    def texts(rows: Rows) -> Sequence[str]:
        return render(context.kb, context.own_text, rows, context.forms)

    read: dict[str, dict[str, object]] = {}
    base = replace(context, texts_read=read).part(spec.parts[0])
    context.texts_read.update(read)
    reads_names = bool(read) and all(each["rendering"] == "text" for each in read.values())
    return GraphRanker(context.kb, base, options["depth"], context.candidates, texts, reads_names)


class GraphRanker:
    """Ranks nodes by text, type, degree and relations.

    Args:
        kb: the knowledge base.
        base: ranks by text.
        depth: how far into the base's ranking to look.
        candidates: the nodes to rank, ascending; all where None.
        texts: gives the texts of nodes, as the base reads them; the column `text` where None.
        reads_names: whether the base reads the names of nodes without text. These are linked here anyway, so such nodes
            count as found by their texts only where no text is found.
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
        self._types = AnswerTypes(kb, texts)
        self._type_ids = np.asarray(kb.graph.type_ids, dtype=np.int64)
        self._spreading = Spreading(kb.graph)
        self._questions = Questions(kb, self._types, self._spreading.n_ways)
        self._no_text = 1 / (1 + self._types.own_words)
        self._degree = _degree_prior(self._spreading.degrees, self._type_ids, len(self._types.names))
        self._has_text = np.ones(len(kb), dtype=bool)
        if reads_names:
            self._has_text = np.array([bool(text.strip()) for text in kb.texts()], dtype=bool)
        self._is_candidate = np.ones(len(kb), dtype=bool)
        if candidates is not None:
            self._is_candidate[:] = False
            self._is_candidate[candidates] = True
        order = np.lexsort((np.arange(len(kb)), -self._degree, self._type_ids))
        self._by_degree = order[self._is_candidate[order]]
        self._starts = np.searchsorted(self._type_ids[self._by_degree], np.arange(len(self._types.names) + 1))

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query."""
        asked = [self._questions.understood(query) for query in queries]
        rows = []
        for each, text in zip(asked, self._texts(asked), strict=True):
            nodes, signals = self._signals(each, text, top_k)
            total = sum(signals.values(), np.zeros(len(nodes)))
            found = best(total, top_k, nodes)
            rows.append((nodes[found], total[found]))
        return pad(rows, top_k)

    def matched(self, queries: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each query matches a text, by the base, or names a node."""
        asked = [self._questions.understood(query) for query in queries]
        in_texts = protocols.matched(self._base, [each.reading.sought for each in asked])
        found: NDArray[np.bool_] = in_texts | np.array([len(each.named.rows) > 0 for each in asked], dtype=bool)
        return found

    def explain(self, query: str, gold: Rows) -> protocols.Reading:
        """Return what is read in a query, and what each signal gave to its best node and to the first nodes of `gold`.

        Gold nodes that no signal touches are left out.
        """
        asked = self._questions.understood(query)
        (text,) = self._texts([asked])
        nodes, signals = self._signals(asked, text, DEPTH)
        total = sum(signals.values(), np.zeros(len(nodes)))
        types = self._asked_types(asked, text, self._spreading.step(asked.named, asked.relations))
        likely = np.argsort(-types, kind="stable")[:N_TYPES].tolist()

        def reasons(place: int) -> protocols.Reasons:
            row = int(nodes[place])
            return protocols.Reasons(
                self._kb.ids([row])[0],
                self._kb.names([row])[0],
                self._kb.types([row])[0],
                {name: float(values[place]) for name, values in signals.items()},
                paths(self._kb, asked.named.rows, row),
            )

        places = best(total, len(total), nodes)
        wanted = places[np.isin(nodes[places], gold)][:N_GOLD]
        return protocols.Reading(
            [" ".join(phrase) for phrase in asked.reading.asked],
            [(self._types.names[number], float(types[number])) for number in likely],
            self._kb.names(asked.named.rows[np.argsort(-asked.named.strength, kind="stable")][:N_NAMED]),
            asked.reading.excluded,
            reasons(int(places[0])),
            [reasons(int(place)) for place in wanted],
        )

    def types(self, queries: Sequence[str]) -> Vector:
        """Return the probability of each node type of being asked for, shape (queries, types)."""
        asked = [self._questions.understood(query) for query in queries]
        found = zip(asked, self._texts(asked), strict=True)
        return np.array(
            [self._asked_types(each, text, self._spreading.step(each.named, each.relations)) for each, text in found]
        )

    def _texts(self, asked: Sequence[Asked]) -> list[Sparse]:
        """Return what the texts of nodes say for each question, best first, by the base."""
        ranking = self._base.search([each.reading.sought for each in asked], self._depth)
        found = zip(ranking.ids, min_max(ranking), strict=True)
        return [self._without_names(Sparse(ids[ids >= 0], scores[ids >= 0])) for ids, scores in found]

    def _without_names(self, text: Sparse) -> Sparse:
        """Return what the base found without nodes that have no text, unless it found nothing else."""
        kept = self._has_text[text.rows]
        return Sparse(text.rows[kept], text.values[kept]) if (text.values[kept] > 0).any() else text

    def _signals(self, asked: Asked, text: Sparse, top_k: int) -> tuple[Rows, Mapping[str, Vector]]:
        """Return the nodes that may be among the best, in any order, and what each signal gives to each."""
        one = self._spreading.step(asked.named, asked.relations)
        two = self._spreading.step(self._spreading.nearest(one), asked.relations)
        types = self._asked_types(asked, text, one)
        found = beside = NOTHING
        if len(asked.named.rows):
            found = self._spreading.step(self._found(text, types), asked.relations)
        if len(asked.excluded.rows):
            beside = self._spreading.step(asked.excluded, self._questions.spoken(asked.reading.excluded))
        sure = asked.named.surest
        highest = self._highest(top_k + len(beside.rows) + len(asked.excluded.rows))
        touched = [text, one, two, found, beside, Sparse(*asked.excluded), Sparse(*asked.named)]
        rows, places = distinct([*(each.rows for each in touched), highest], self._is_candidate)

        def spread(sparse: Sparse, place: Rows) -> Vector:
            values = np.zeros(len(rows) + 1)
            values[place] = sparse.values  # what is no candidate falls on the last
            return values[:-1]

        by_text, by_one, by_two, by_found, by_beside, excluded, named = map(spread, touched, places)
        by_two[named > 0] = 0  # the way back to where it began
        of_type = self._type_ids[rows]
        by_degree = (types * self._no_text)[of_type]
        matching = text.rows[text.values > 0]
        if len(matching) and not self._has_text[matching].any():
            by_degree *= sure  # names were found in place of texts: they count unless the question links others
        unless_joined = np.where((by_one > 0) | (by_two > 0), 1, 1 - sure)
        return rows, {
            "text": asked.left * (1 - by_degree) * by_text,
            "degree": (by_degree * unless_joined + asked.left * DEGREE_WEIGHT * (1 - by_degree)) * self._degree[rows],
            "type": (TYPE_WEIGHT * np.log(np.maximum(types / types.max(), LEAST_TYPE)))[of_type],
            "one edge": ONE_EDGE_WEIGHT * sure * by_one,
            "two edges": TWO_EDGES_WEIGHT * sure * by_two,
            "found": asked.left * FOUND_WEIGHT * sure * by_found,
            "ruled out": -RULED_OUT_WEIGHT * (by_beside + excluded),
        }

    def _asked_types(self, asked: Asked, text: Sparse, joined: Sparse) -> Vector:
        """Return the probability of each type; the nodes that are named say nothing about what is asked for.

        What the base finds and what is joined to the named nodes tell it, as far as the question leaves it to each.
        Where the base's best node is far ahead of the next, its type may be asked for whatever the phrase says.
        """
        named = set(asked.named.rows.tolist())
        found = enumerate(text.rows[: VOTERS + len(named)].tolist())
        others = [place for place, row in found if row not in named][:VOTERS]
        of_type, values = self._type_ids[text.rows[others]], text.values[others]
        by_text, by_edges = self._share(of_type, values), self._share(self._type_ids[joined.rows], joined.values)
        types = self._types.probabilities(asked.reading.asked, by_text, by_edges, asked.left, asked.reading.uncued)
        sure = min(asked.left * (values[0] - values[1]) ** 2, MOST_SURE) if len(others) > 1 else 0.0
        types *= 1 - sure
        types[of_type[:1]] += sure
        return types

    def _share(self, of_type: Rows, values: Vector) -> Vector:
        """Return the share of each type in the values of nodes of these types; none where there is nothing."""
        votes = np.bincount(of_type, values, len(self._types.names)).astype(np.float64, copy=False)
        shares: Vector = votes / max(votes.sum(), 1e-12)
        return shares

    def _found(self, text: Sparse, types: Vector) -> Sparse:
        """Return the nodes that the question seems to speak of by their texts, and how surely.

        What is of the type that is asked for is an answer, and joins nothing.
        """
        values = text.values**2 * (1 - types / types.max())[self._type_ids[text.rows]]
        found = best(values, VOTERS)
        return Sparse(text.rows[found], values[found])

    def _highest(self, n: int) -> Rows:
        """Return the `n` best connected candidates of every type."""
        stops = np.minimum(self._starts[:-1] + n, self._starts[1:])
        return self._by_degree[spans(self._starts[:-1], stops)[0]]


def _degree_prior(degrees: NDArray[np.int64], type_ids: NDArray[np.int64], n_types: int) -> Vector:
    """Return log(1 + degree) of each node against the greatest of its type."""
    weight = np.log1p(degrees)
    greatest = np.zeros(n_types)
    np.maximum.at(greatest, type_ids, weight)
    prior: Vector = weight / np.maximum(greatest, 1e-12)[type_ids]
    return prior


N_PATHS = 3
MOST = 100
"""Nodes between two others that are looked at for the least joined, which tell most."""


def paths(kb: KnowledgeBase, named: NDArray[np.int64], row: int) -> list[Path]:
    """Return ways of one edge, or where there are none of two, at most three; none from a node to itself.

    >>> import pyarrow as pa
    >>> nodes = pa.table({"id": [0, 1, 2], "type": ["ore", "metal", "coin"], "name": ["Galena", "Lead", "Token"],
    ...                   "text": [""] * 3})
    >>> edges = pa.table({"head": [0, 2], "relation": ["yields", "made of"], "tail": [1, 1]})
    >>> kb = KnowledgeBase.from_arrow(nodes, edges)
    >>> paths(kb, np.array([0]), 2)[0].nodes
    ['Galena', 'Lead', 'Token']
    """
    here = _joined(kb, row)
    found: list[tuple[list[int], list[Edge]]] = []
    middle: list[tuple[list[int], list[Edge]]] = []
    for start in named[named != row].tolist():
        if start in here:
            found.append(([start, row], [_back(here[start])]))
            continue
        there = _joined(kb, start)
        between = sorted(there.keys() & here.keys() - {start, row})[:MOST]
        between.sort(key=lambda node: _degree(kb, node))
        middle += [([start, node, row], [there[node], _back(here[node])]) for node in between[:N_PATHS]]
    return [Path(kb.names(rows), edges) for rows, edges in [*found, *middle][:N_PATHS]]


def _joined(kb: KnowledgeBase, row: int) -> dict[int, Edge]:
    """Return the nodes joined to one, each with its first edge, followed from this node."""
    return dict(reversed(list(_edges(kb, row))))


def _edges(kb: KnowledgeBase, row: int) -> Iterator[tuple[int, Edge]]:
    graph = kb.graph.without_loops
    for side, forward in ((graph.out, True), (graph.into, False)):
        found = side.edges(np.array([row]))
        for relation, other in zip(found.relations.tolist(), found.rows.tolist(), strict=True):
            yield other, Edge(graph.relations[relation], forward)


def _back(edge: Edge) -> Edge:
    return Edge(edge.relation, not edge.forward)


def _degree(kb: KnowledgeBase, node: int) -> int:
    graph = kb.graph.without_loops
    return sum(len(side.edges(np.array([node])).rows) for side in (graph.out, graph.into))
