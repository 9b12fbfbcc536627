"""Rule planner: plans from linked entities, the answer type and the relations that a query mentions; no model.

A candidate has an answer type, and for each linked name a walk of one or two hops to it, or none. Its log-odds add up
what the query says of its parts: the probability of the type, the mentions of its relations and of the types between,
and how unlikely it is that its walks meet by chance. Candidates without an answer are dropped. How sure a plan is
depends further on the share of the query's words that names, types and relations explain, and on the best text.

The plan ranker builds it for `plan:rules`. The constants were tuned on two knowledge bases (food and stage; films,
sports and space) and checked on others.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from kbbench_hf.knowledge_base.metapaths import Hop, MetapathWalk
from kbbench_hf.knowledge_base.plans import Plan, PlanSchema, execute
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.graph_ranker.entity_linking import LinkedEntities
from kbbench_hf.retrieval.graph_ranker.propagation import Rows
from kbbench_hf.retrieval.graph_ranker.query_words import FUNCTION, SchemaLabels, words
from kbbench_hf.retrieval.planner import LEAST_SURE, PlanCandidate, PlanQuery
from kbbench_hf.text.words import WORD

MOST_NAMES, MOST_TYPES, MOST_WALKS, MOST_CANDIDATES = 3, 8, 5, 10
"""Linked names, answer types, walks from one name to one type, and plans: the best of each."""
MOST_TRIED, MOST_EDGES = 30, 200_000
"""Walks from one name to one type that are followed, the best first; edges of a walk, beyond which it is left out."""
LEAST_TYPE = 0.01
"""The least probability of an answer type."""
RELATION_WEIGHT, TYPE_WEIGHT = 3.0, 1.0
"""The log-odds of a relation, and of a type between, that the query mentions; a part of its label counts squared."""
THERE_AND_BACK = 1.0
"""Those of a mentioned relation that is followed both ways: "films with the same director"."""
HOP_COST, NAME_COST = 3.0, 3.0
"""What a second hop, and a linked name without a walk, cost."""
MOST_CHANCE = 2.0
"""The most log-odds of walks that meet although it is unlikely."""
NO_PLAN = -4.0
"""The log-odds of what no plan says."""
TEXT_LEAD = 2.0
"""A best text that is half of its score ahead of the next leaves nothing to plans, in a query for texts alone."""
UNREAD = 0.2
"""What is left of how sure plans are where the query has a word that no plan follows: too little to rank by them."""
_NAME = "\N{BULLET}"
"""Replaces a name, and a word of one."""
_UNREAD = re.compile(
    rf"\b(?:not(?! only)|no(?! \d)|never|none|neither|nor|without|except|\w+n t|cannot)\b"
    rf"(?! (?:remember|recall|know|sure|certain|think|idea|matter|longer)\b)|{_NAME}(?: \w+){{0,3}} or\b"
)
"""Negations that are not read as exclusions, and alternatives of names: what plans say is then as likely wrong."""
_SENTENCE_END = re.compile(r"[.!?;]\s|\n")


class _Reached(NamedTuple):
    """A walk from a name with its log-odds, and the nodes at its end; None where the name has no walk."""

    odds: float
    walk: MetapathWalk | None
    rows: Rows


@dataclass(frozen=True)
class _Mentions:
    """The names, relations and types in a query."""

    named: Mapping[str, Rows]
    """The surest linked names, each with its nodes."""
    excluded: Mapping[str, Rows]
    strengths: Mapping[str, float]
    relations: Mapping[str, float]
    """How far the query mentions each relation, outside names."""
    types: Mapping[str, float]
    stems: Mapping[str, int]
    """How often each stem is in the query, names included."""

    def are_one(self, names: Iterable[str]) -> bool:
        """Whether names share a word that the query has less often: readings of one mention, not two conditions."""
        counts = Counter(stem for name in names for stem in {*words(name)})
        return any(0 < self.stems.get(stem, 0) < count for stem, count in counts.items())

    @property
    def rows(self) -> Rows:
        """The nodes of all linked names."""
        return np.concatenate([np.zeros(0, np.int64), *self.named.values()])


class RulePlanner:
    """Plans queries to one knowledge base by rules."""

    least_sure = LEAST_SURE

    def __init__(self, kb: KnowledgeBase) -> None:
        schema = PlanSchema.of(kb)
        self._kb, self._types = kb, SchemaLabels(kb.graph.node_types)
        self._relations = SchemaLabels(list(map(_without_function_words, kb.graph.relations)))
        self._hops = {
            kind: [hop for hop in hops if hop.direction == "out" or not schema.symmetric]
            for kind, hops in schema.hops.items()
        }

    def plans(self, queries: Sequence[PlanQuery]) -> list[list[PlanCandidate]]:
        """Return the most probable plans of each query, best first; none without a linked entity."""
        return [self._plan_query(query) for query in queries]

    def _plan_query(self, query: PlanQuery) -> list[PlanCandidate]:
        mentions = self._mentions(query)
        order = np.argsort(-query.types, kind="stable")[:MOST_TYPES]
        scored = [
            (float(np.log(query.types[number])) + odds, plan)
            for number in order[query.types[order] >= LEAST_TYPE].tolist()
            for odds, plan in self._plans_of_type(self._kb.graph.node_types[number], mentions)
        ]
        scored.sort(key=lambda each: -each[0])
        likely = np.exp([odds for odds, _ in scored])
        shares = (likely / (likely.sum() + np.exp(NO_PLAN)) * self._share(query, mentions)).tolist()
        return [PlanCandidate(plan, share) for (_, plan), share in zip(scored, shares, strict=True)][:MOST_CANDIDATES]

    def _share(self, query: PlanQuery, mentions: _Mentions) -> float:
        """Return how much of a query plans may explain, 0 to 1."""
        linked = query.linked
        names = {stem for name in mentions.strengths for stem in words(name)}
        stems = set(words(linked.parsed.keywords))
        explained = sum(stem in names or self._is_label(stem) for stem in stems) / max(len(stems), 1)
        # Without a name all words are left to texts: those of labels ask for none.
        text_share = linked.text_share if len(linked.entities.rows) else 1 - explained
        by_text = max(0.0, 1 - TEXT_LEAD * text_share * query.text_lead)
        unread = UNREAD if _has_unread(linked.parsed.included, mentions.named) else 1.0
        return explained * (linked.entities.surest or linked.excluded.surest) * by_text * unread

    def _is_label(self, stem: str) -> bool:
        return bool(self._relations.forms(stem) or self._types.forms(stem))

    def _mentions(self, query: PlanQuery) -> _Mentions:
        entities, excluded = query.linked.entities, query.linked.excluded
        strengths: dict[str, float] = {}
        for name, strength in zip(self._kb.names(entities.rows), entities.strength.tolist(), strict=True):
            strengths[name] = max(strength, strengths.get(name, 0.0))
        named, ruled_out = self._rows_by_name(entities), self._rows_by_name(excluded)
        own = {stem for name in (*named, *ruled_out) for stem in words(name)}
        stems = {stem: 1.0 for stem in words(query.text) if stem not in own}
        # "films" is the type film, not a form of the relation "filming location".
        verbs = {stem: 1.0 for stem in stems if stem in self._relations.words or stem not in self._types.words}
        relations = (self._relations.coverage(verbs) ** 2).tolist()
        types = self._types.coverage(stems).tolist()
        graph = self._kb.graph
        return _Mentions(
            named,
            ruled_out,
            strengths,
            dict(zip(graph.relations, relations, strict=True)),
            dict(zip(graph.node_types, types, strict=True)),
            Counter(words(query.text)),
        )

    def _rows_by_name(self, entities: LinkedEntities) -> dict[str, Rows]:
        """Return the surest names with their nodes, of which one is meant; names of words of labels are left out."""
        sure = entities.strength >= entities.surest / 2
        rows = entities.rows[sure][np.argsort(-entities.strength[sure], kind="stable")]
        found: dict[str, list[int]] = {}
        for row, name in zip(rows.tolist(), self._kb.names(rows), strict=True):
            if not all(map(self._is_label, words(name))):
                found.setdefault(name, []).append(row)
        return {name: np.array(sorted(found[name]), np.int64) for name in [*found][:MOST_NAMES]}

    def _plans_of_type(self, answer_type: str, mentions: _Mentions) -> Iterator[tuple[float, Plan]]:
        """Yield the plans with an answer type that have answers, and their log-odds."""
        size = len(self._kb.of_type(answer_type))
        options = [
            [
                *self._best_walks(name, rows, answer_type, mentions),
                _Reached(-NAME_COST * mentions.strengths[name], None, rows),
            ]
            for name, rows in mentions.named.items()
        ]
        exclusions = [
            reached
            for name, rows in mentions.excluded.items()
            for reached in self._best_walks(name, rows, answer_type, mentions)[:1]
        ]
        # Exclusions alone are a plan where the query mentions how they are related: not in "films other than Speed".
        is_alone = not mentions.named and bool(exclusions) and min(each.odds for each in exclusions) > 0
        for chosen in product(*options):
            walks = [each.walk for each in chosen if each.walk is not None]
            ends = [self._kb.of_type(answer_type)] if is_alone else [each.rows for each in chosen if each.walk]
            # Exclusions that leave nothing contradict the walks.
            if mentions.are_one(walk.topic or "" for walk in walks) or not len(
                _intersect_ends(ends, np.concatenate([mentions.rows, *(each.rows for each in exclusions)]))
            ):
                continue
            chance = np.log(size) + sum(np.log(len(rows) / size) for rows in ends)
            odds = sum(each.odds for each in chosen) + (np.clip(-chance, 0, MOST_CHANCE) if len(ends) > 1 else 0)
            yield (
                float(odds),
                Plan(answer_type, (*walks, *(_negate_walk(each.walk) for each in exclusions if each.walk))),
            )

    def _best_walks(self, name: str, rows: Rows, answer_type: str, mentions: _Mentions) -> list[_Reached]:
        """Return the best walks from a name to a type that lead anywhere, best first; none through other names."""
        found: list[_Reached] = []
        possible = [
            each for kind in dict.fromkeys(self._kb.types(rows)) for each in self._walks(kind, answer_type, mentions)
        ]
        possible.sort(key=lambda each: -each[0])
        for odds, start_type, hops in possible[:MOST_TRIED]:
            walk = MetapathWalk(name, start_type, hops)
            start = rows[self._kb.graph.type_ids[rows] == self._kb.graph.type_id(start_type)]
            done = execute(Plan(answer_type, (walk,)), self._kb, [start], MOST_EDGES)
            by_names = any(np.isin(between, mentions.rows).all() for between in done.walks[0][1:-1])
            if len(done.rows) and not done.remarks and not by_names:
                found.append(_Reached(odds, walk, done.walks[0][-1]))
            if len(found) == MOST_WALKS:
                break
        return found

    def _walks(
        self, start_type: str, answer_type: str, mentions: _Mentions
    ) -> Iterator[tuple[float, str, tuple[Hop, ...]]]:
        """Yield the log-odds, start type and hops of all walks of one or two hops between two types."""
        for hop in self._hops[start_type]:
            odds = RELATION_WEIGHT * mentions.relations[hop.relation]
            if hop.node_type == answer_type:
                yield odds, start_type, (hop,)
            between = TYPE_WEIGHT * mentions.types[hop.node_type] if hop.node_type != answer_type else 0.0
            for last in self._hops[hop.node_type]:
                if last.node_type == answer_type:
                    is_same = last.relation == hop.relation
                    weight = THERE_AND_BACK if is_same else RELATION_WEIGHT
                    both = odds + weight * mentions.relations[last.relation] + between - HOP_COST
                    yield both, start_type, (hop, last)


def _without_function_words(label: str) -> str:
    """Return a label without words that queries are read without: all of "built by" is in "who built it"."""
    parts = label.replace("_", " ").split()
    return " ".join(part for part in parts if part.lower() not in FUNCTION) or label


def _has_unread(included: str, names: Iterable[str]) -> bool:
    """Return whether a sentence with a name has a negation that is no exclusion, or another name as an alternative.

    >>> queries = "Who wrote Either/Or?", "Plays not starring Ann", "Films by Ann or Bo", "I do not know. Films by Ann?"
    >>> [_has_unread(query, ["Either/Or", "Ann", "Bo"]) for query in queries]
    [False, True, True, False]
    """
    spelled = sorted(map(_space_words, names), key=len, reverse=True)
    stems = {stem for name in names for stem in words(name)}
    for sentence in map(_space_words, _SENTENCE_END.split(included)):
        for name in spelled:
            sentence = sentence.replace(name, f" {_NAME} ")
        masked = " ".join(_NAME if stems.intersection(words(word)) else word for word in sentence.split())
        if _NAME in masked and _UNREAD.search(masked):
            return True
    return False


def _space_words(text: str) -> str:
    return f" {' '.join(WORD.findall(text.lower()))} "


def _intersect_ends(ends: Sequence[Rows], others: Rows) -> Rows:
    """Return the nodes at the ends of all walks that are not among others; none without a walk."""
    return np.setdiff1d(reduce(np.intersect1d, ends), others) if ends else others[:0]


def _negate_walk(walk: MetapathWalk) -> MetapathWalk:
    *before, last = walk.hops
    return replace(walk, hops=(*before, replace(last, negated=True)))
