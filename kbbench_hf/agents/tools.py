"""Agent tools on a knowledge base (search_nodes, neighbors, select, finish); `tool_schemas` has their schemas.

No model is called and nothing leaves the process. Arguments of a model cannot raise an exception, read anything but the
knowledge base, or exceed a limit. Agent runs and the MCP server execute calls with `AgentTools`; the same call has the
same result, byte for byte, because resumed runs replay their calls.
"""

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.agents.tool_schemas import (
    DIRECTIONS,
    FINISH,
    LONGEST_NAME,
    LONGEST_QUERY,
    MOST_READ,
    NEIGHBORS,
    PAGE,
    SEARCH_NODES,
    SELECT,
    TEXT_PAGE,
    TOOLS,
    Arguments,
    Id,
    Outcome,
    Tool,
    WrongCallError,
    clean,
    failed_call,
    on_one_line,
    quote_value,
)
from kbbench_hf.knowledge_base.documents import known_of, nodes
from kbbench_hf.knowledge_base.graph import Direction
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.protocols import Matches
from kbbench_hf.retrieval.top_k import best

_MOST_IGNORED = 20
"""Ignored ids that a result lists."""
_MOST_OFFERED = 3
"""Nodes that are suggested for an unknown id."""


class Search(Protocol):
    """A retriever for the tools."""

    def matches(self, query: str) -> Matches:
        """Return all nodes that match a query, rows ascending, with scores."""
        ...


class AgentTools:
    """The tools on one knowledge base; `question` returns the state of a new question.

    `search` searches all nodes; only `candidates` (rows, ascending; None for all) can be selected. A call costs one
    search, or the edges or the text of one node.

    >>> import pyarrow as pa
    >>> from kbbench_hf.retrieval.bm25 import BM25
    >>> nodes = pa.table({"id": ["a", "p"], "type": ["author", "paper"], "name": ["Ada", "On salt"], "text": ["", "A"]})
    >>> edges = pa.table({"head": ["a"], "relation": ["writes"], "tail": ["p"]})
    >>> kb = KnowledgeBase.from_arrow(nodes, edges)
    >>> question = AgentTools(kb, BM25(kb.names())).question()
    >>> question.call("search_nodes", {"query": "salt"}).text
    '{"nodes": [{"id": "p", "type": "paper", "name": "On salt", "snippet": "A"}], "total": 1}'
    >>> question.call("neighbors", {"node_id": "p"}).result["nodes"][0]["relations"]
    {'writes': 'in'}
    >>> question.call("select", {"node_ids": ["p", "q", "p"]}).result["selected"], question.selected
    (1, ['p'])
    >>> question.call("walk", None).error
    'unknown_tool'
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        search: Search,
        candidates: NDArray[np.int64] | None = None,
        offered: Sequence[Tool] = TOOLS,
    ) -> None:
        self.kb, self.search, self.candidates, self.offered = kb, search, candidates, offered
        self._summaries = NodeSummaries(kb)
        self.ids_are_numbers = bool(len(kb)) and isinstance(kb.ids([0])[0], int)
        self._calls: dict[str, Callable[[Arguments, QuestionState], Outcome]] = {
            SEARCH_NODES.name: self._search_nodes,
            NEIGHBORS.name: self._neighbors,
            SELECT.name: self._select,
            FINISH.name: self._finish,
        }

    def question(self) -> "QuestionState":
        """Return the state of a new question: nothing is selected."""
        return QuestionState(self)

    def call(self, name: str, arguments: object, question: "QuestionState") -> Outcome:
        """Execute one call; an invalid one has an outcome too.

        `arguments` is a mapping, or None. Unknown ones are ignored and counted.
        """
        properties = {tool.name: tool.properties for tool in self.offered}
        if name not in properties:
            return failed_call("unknown_tool", f"There is no tool {quote_value(name)}.", tuple(properties))
        if not isinstance(arguments, Mapping) and arguments is not None:
            return failed_call("bad_arguments", f"The arguments are {quote_value(arguments)}; expected a JSON object.")
        given = {key: value for key, value in (arguments or {}).items() if key in properties[name]}
        parsed = Arguments(given, repaired=len(arguments or {}) - len(given))
        try:
            outcome = self._calls[name](parsed, question)
        except WrongCallError as wrong:
            return failed_call(wrong.code, wrong.message, wrong.did_you_mean, parsed.repaired)
        noted = {**outcome.result, "note": " ".join(parsed.notes)} if parsed.notes else outcome.result
        return outcome._replace(result=noted, repaired=parsed.repaired)

    def row(self, given: object) -> int | None:
        """Return the row of a node id; None where no node has it.

        Where ids are numbers, their digits as a text are ids too; booleans, floats and lists are none.
        """
        if isinstance(given, bool) or not isinstance(given, int | str):
            return None
        if self.ids_are_numbers and isinstance(given, str):
            if not re.fullmatch(r"0|[1-9][0-9]{0,18}", given.strip(), re.ASCII):
                return None
            given = int(given)
        return self.kb.row_of(given)

    def _search_nodes(self, arguments: Arguments, question: "QuestionState") -> Outcome:
        query = arguments.text("query", longest=LONGEST_QUERY)
        if query is None:
            raise WrongCallError("bad_arguments", "query is missing; expected words to search for.")
        node_type, limit = self._parse_type(arguments), arguments.number(SEARCH_NODES)
        rows, scores = self.search.matches(query)
        if node_type is not None:
            matching = self.kb.graph.type_ids[rows] == node_type
            rows, scores = rows[matching], scores[matching]
        return self._list_nodes(rows[best(scores, limit)], len(rows))

    def _neighbors(self, arguments: Arguments, question: "QuestionState") -> Outcome:
        row = self._parse_node(arguments.given.get("node_id"))
        if page := arguments.number(NEIGHBORS, TEXT_PAGE):
            return self._text_page(row, page)
        relation, node_type = self._parse_relation(arguments), self._parse_type(arguments)
        direction, query = self._parse_direction(arguments), arguments.text("query", longest=LONGEST_QUERY)
        limit = arguments.number(NEIGHBORS)
        rows = self.kb.neighbors(row, relation, direction).astype(np.int64)
        if node_type is not None:
            rows = rows[self.kb.graph.type_ids[rows] == node_type]
        if self.kb.id_places is not None:
            rows = rows[np.argsort(self.kb.id_places[rows])]
        total = len(rows)
        if query is None:
            rows = rows[:limit]
        elif total:
            rows = rows[best(_scores_of(self.search.matches(query), rows), limit)]
        return self._list_nodes(rows, total, self._relations_to(row, rows, relation, direction))

    def _text_page(self, row: int, number: int) -> Outcome:
        """Return a page of a node's own text; pages end at a word's end, unless a word is longer than a page."""
        (node,) = nodes(self.kb, np.array([row]))
        text = on_one_line(known_of(node, sys.maxsize))
        starts = [0]
        while (end := starts[-1] + PAGE) < len(text):
            starts.append(text.rfind(" ", starts[-1] + 1, end + 1) + 1 or end)
        if number > len(starts):
            raise WrongCallError("bad_arguments", f"{TEXT_PAGE} is {number}; the text has {len(starts)} pages.")
        ((node_id, node_type, name, _),) = self._summaries.of(np.array([row]))
        page = {"id": node_id, "type": node_type, "name": name, "page": number, "pages": len(starts)}
        page |= {"characters": len(text), "text": text[slice(*[*starts, len(text)][number - 1 : number + 1])]}
        return Outcome(page | ({"next_page": number + 1} if number < len(starts) else {}))

    def _select(self, arguments: Arguments, question: "QuestionState") -> Outcome:
        ignored: list[dict[str, Any]] = []
        for given in arguments.ids("node_ids"):
            row = self.row(given)
            if row is None:
                reason = "unknown_node"
            elif not self._may_be_selected(row):
                reason = f"no_candidate: answers are never of type {self.kb.types([row])[0]}"
            elif not question.select(self.kb.ids([row])[0]):
                reason = "already_selected"
            else:
                continue
            ignored.append({"id": _short_id(given), "reason": reason})
        if len(ignored) > _MOST_IGNORED:
            arguments.notes.append(f"{len(ignored):,} were ignored; the first {_MOST_IGNORED} are listed.")
        return Outcome({"selected": len(question.selected), "ignored": ignored[:_MOST_IGNORED]})

    def _finish(self, arguments: Arguments, question: "QuestionState") -> Outcome:
        question.finished = True
        return Outcome({"finished": True})

    def _may_be_selected(self, row: int) -> bool:
        if self.candidates is None:
            return True
        place = int(np.searchsorted(self.candidates, row))
        return place < len(self.candidates) and int(self.candidates[place]) == row

    def _parse_node(self, given: object) -> int:
        if given is None:
            raise WrongCallError("bad_arguments", "node_id is missing; expected the id of a node.")
        if isinstance(given, bool) or not isinstance(given, int | str):
            raise WrongCallError("bad_arguments", f"node_id is {quote_value(given)}; expected the id of a node.")
        row = self.row(given)
        if row is None:
            message = f"No node has the id {quote_value(given)}. Take ids from results."
            raise WrongCallError("unknown_node", message, self._suggest_nodes(given))
        return row

    def _suggest_nodes(self, given: Id) -> list[dict[str, Any]]:
        """Return nodes whose name an unknown id may be: models confuse names and ids."""
        if isinstance(given, int) or not given.strip():
            return []
        rows, scores = self.search.matches(given[:LONGEST_QUERY])
        near = rows[best(scores, _MOST_OFFERED)]
        return [
            {"id": each, "name": clean(name, LONGEST_NAME)}
            for each, name in zip(self.kb.ids(near), self.kb.names(near), strict=True)
        ]

    def _parse_type(self, arguments: Arguments) -> int | None:
        name = arguments.text("node_type")
        return None if name is None else _index_of("unknown_type", "node type", name, self.kb.graph.node_types)

    def _parse_relation(self, arguments: Arguments) -> str | None:
        name, known = arguments.text("relation"), self.kb.graph.relations
        return None if name is None else known[_index_of("unknown_relation", "relation", name, known)]

    def _parse_direction(self, arguments: Arguments) -> Direction:
        direction = arguments.text("direction") or "both"
        if direction not in DIRECTIONS:
            raise WrongCallError(
                "bad_arguments", f"direction is {quote_value(direction)}; expected one of these.", DIRECTIONS
            )
        return cast(Direction, direction)

    def _relations_to(
        self, row: int, shown: NDArray[np.int64], relation: str | None, direction: Direction
    ) -> list[dict[str, str]]:
        """Return, for each neighbor that is shown, its relations to the node with their directions."""
        graph = self.kb.graph
        ways = [("out", graph.out), ("in", graph.into)]
        if graph.symmetric and direction == "both":
            ways = [("both", graph.out)]
        by_neighbor: list[dict[str, str]] = [{} for _ in shown]
        for way, adjacency in ways:
            if direction not in (way, "both"):
                continue
            for name, ends in zip(graph.relations, adjacency.by_relation(row), strict=True):
                if len(ends) and relation in (None, name):
                    places = np.minimum(np.searchsorted(ends, shown), len(ends) - 1)
                    for spot in np.flatnonzero(ends[places] == shown).tolist():
                        by_neighbor[spot][name] = "both" if name in by_neighbor[spot] else way
        return [dict(sorted(each.items())) for each in by_neighbor]

    def _list_nodes(
        self, rows: NDArray[np.int64], total: int, relations: Sequence[Mapping[str, str]] | None = None
    ) -> Outcome:
        listed = []
        for place, (node_id, node_type, name, snippet) in enumerate(self._summaries.of(rows)):
            entry: dict[str, Any] = {"id": node_id, "type": node_type, "name": name}
            if relations is not None:
                entry["relations"] = relations[place]
            entry["snippet"] = snippet
            listed.append(entry)
        return Outcome({"nodes": listed, "total": total}, shown=tuple(entry["id"] for entry in listed))


@dataclass
class QuestionState:
    """The state of one question: the selected nodes, in order, and whether the model has finished."""

    tools: AgentTools = field(repr=False)
    selected: list[Id] = field(default_factory=list)
    finished: bool = False
    _chosen: set[Id] = field(default_factory=set, repr=False)

    def call(self, name: str, arguments: object) -> Outcome:
        """Execute one call; see `AgentTools.call`."""
        return self.tools.call(name, arguments, self)

    def select(self, node_id: Id) -> bool:
        """Add a node to the answer; return whether it is new."""
        if node_id in self._chosen:
            return False
        self._chosen.add(node_id)
        self.selected.append(node_id)
        return True


def _short_id(given: object) -> object:
    """Return an id of a call for a result: unchanged where it is short."""
    if isinstance(given, str):
        return clean(given, LONGEST_NAME)
    return given if given is None or (isinstance(given, int) and abs(given) < 2**63) else quote_value(given)


def _index_of(code: str, kind: str, name: str, known: Collection[str]) -> int:
    """Return the index of a name among the known ones.

    Raises:
        WrongCallError: it is unknown; similar names are suggested.
    """
    names = list(known)
    if name in names:
        return names.index(name)
    folded = {each.casefold(): each for each in names}
    near = [folded[each] for each in get_close_matches(name.casefold()[:LONGEST_NAME], folded, n=5, cutoff=0.5)]
    raise WrongCallError(code, f"There is no {kind} {quote_value(name)}.", near or names[:20])


def _scores_of(matches: Matches, rows: NDArray[np.int64]) -> NDArray[np.floating]:
    """Return the scores of these rows, 0 for rows that do not match."""
    scores = np.zeros(len(rows))
    if len(matches.rows):
        places = np.searchsorted(matches.rows, rows).clip(max=len(matches.rows) - 1)
        there = matches.rows[places] == rows
        scores[there] = matches.scores[places[there]]
    return scores


class NodeSummary(NamedTuple):
    """A node in a result; name and snippet are cleaned by `agents.tool_schemas.clean`."""

    id: Id
    type: str
    name: str
    snippet: str


class NodeSummaries:
    """Cache of at most `most` node summaries of a knowledge base, about 1 kB each.

    Agents visit the same nodes, above all hubs, in every question.

    >>> import pyarrow as pa
    >>> nodes = pa.table({"id": ["a", "p"], "type": ["author", "paper"], "name": ["Ada", "On salt"], "text": ["", "A"]})
    >>> kb = KnowledgeBase.from_arrow(nodes, pa.table({"head": ["a"], "relation": ["writes"], "tail": ["p"]}))
    >>> NodeSummaries(kb).of(np.array([1]))
    [NodeSummary(id='p', type='paper', name='On salt', snippet='A')]
    """

    def __init__(self, kb: KnowledgeBase, most: int = 20_000) -> None:
        self._kb, self._most = kb, most
        self._cache: dict[int, NodeSummary] = {}

    def of(self, rows: NDArray[np.int64]) -> list[NodeSummary]:
        """Return the summaries of these rows, in their order."""
        cache, ordered = self._cache, rows.tolist()
        new = np.array([row for row in ordered if row not in cache], np.int64)
        if len(new):
            if len(cache) + len(new) > self._most:  # another thread may read the old cache: it is not changed
                self._cache = cache = {row: cache[row] for row in ordered if row in cache}
            for row, node_id, node in zip(new.tolist(), self._kb.ids(new), nodes(self._kb, new), strict=True):
                cache[row] = NodeSummary(node_id, node.type, clean(node.name), clean(known_of(node, MOST_READ + 1)))
        return [cache[row] for row in ordered]
