"""Four tools with which a model walks a knowledge base: what each takes, and what it answers.

Nothing here asks a model or leaves the process. A tool's answer is a JSON object, its keys in a fixed order; arguments
that are wrong get an answer too, of which a model can learn. Nothing that a model sends can raise, read beyond the
knowledge base, or lift a bound. What nodes hold is data: it stands in results alone, as JSON strings.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.documents.clean import known_of
from kbbench_hf.knowledge_base.documents.rendering import nodes
from kbbench_hf.knowledge_base.graph import Direction
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.top_k import best
from kbbench_hf.protocols import Matches

Id = int | str
LONGEST_QUERY = 400
LONGEST_SNIPPET = 300
_READ = 600
"""So much of a text is looked at to cut a snippet from."""
LONGEST_NAME = 80
"""Of a name that is offered for a wrong one."""
_MOST_IGNORED = 20
_MOST_OFFERED = 3
DIRECTIONS = ("out", "in", "both")


@dataclass(frozen=True)
class Tool:
    """One tool as a model is told of it: its name, what it does, and the JSON schema of its arguments."""

    name: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        described = {name: dict(each) for name, each in self.properties.items()}
        return {"type": "object", "properties": described, "required": list(self.required)}

    def function(self) -> dict[str, Any]:
        """Return the tool as a chat request has it."""
        about = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": about}


_ID = {"type": ["integer", "string"]}
_TYPE = {"type": "string", "description": "Only nodes of this type."}


def _limit(most: int, usual: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": usual, "description": "How many to show."}


SEARCH_NODES = Tool(
    "search_nodes",
    "Search all nodes of the knowledge base by words, best first. Nodes without a matching word are left out.",
    {
        "query": {"type": "string", "maxLength": LONGEST_QUERY, "description": "Words of the node's name or text."},
        "node_type": _TYPE,
        "limit": _limit(20, 10),
    },
    ("query",),
)
NEIGHBORS = Tool(
    "neighbors",
    "List the nodes that an edge joins to a node, each once, with the relations between them. "
    "With a query, those that match its words best come first.",
    {
        "node_id": {**_ID, "description": "The id of the node, as another result has it."},
        "relation": {"type": "string", "description": "Only edges of this relation."},
        "direction": {
            "type": "string",
            "enum": list(DIRECTIONS),
            "default": "both",
            "description": "out: edges that leave the node; in: edges that lead to it.",
        },
        "node_type": _TYPE,
        "query": {"type": "string", "maxLength": LONGEST_QUERY, "description": "Words to order the neighbours by."},
        "limit": _limit(50, 20),
    },
    ("node_id",),
)
SELECT = Tool(
    "select",
    "Add nodes to the answer, the most certain first. What is selected stays; selecting it again changes nothing.",
    {"node_ids": {"type": "array", "items": _ID, "description": "Ids of nodes that answer the question."}},
    ("node_ids",),
)
FINISH = Tool("finish", "Say that the answer is complete.", {})
TOOLS: tuple[Tool, ...] = (SEARCH_NODES, NEIGHBORS, SELECT, FINISH)
ERRORS = ("unknown_tool", "bad_arguments", "unknown_node", "unknown_relation", "unknown_type", "too_many_calls")
"""The codes of the errors that a call can meet."""


class Search(Protocol):
    """What the tools search with."""

    def matches(self, query: str) -> Matches:
        """Return all nodes that match a query, and how well; none where nothing matches."""
        ...


class Outcome(NamedTuple):
    """What became of a call."""

    result: dict[str, Any]
    error: str | None = None
    """One of `ERRORS`."""
    shown: tuple[Id, ...] = ()
    """The ids of the nodes that the result names, in order."""
    repaired: int = 0
    """How many arguments were taken otherwise than they were given, or left aside."""

    @property
    def total(self) -> int | None:
        """How many nodes there were before the limit; None where the call lists none."""
        return self.result.get("total")

    @property
    def text(self) -> str:
        """The result on one line, as a model sees it; what hides or steers in an id stands as JSON's escape."""
        text = json.dumps(self.result, ensure_ascii=False)
        return text if text.isprintable() else _HIDDEN.sub(lambda hidden: json.dumps(hidden[0])[1:-1], text)


class _WrongCallError(Exception):
    """A call that cannot be answered, with what the model is told of it."""

    def __init__(self, code: str, message: str, did_you_mean: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.code, self.message, self.did_you_mean = code, message, did_you_mean


def failed(code: str, message: str, did_you_mean: Sequence[Any] = (), repaired: int = 0) -> Outcome:
    """Return the outcome of a call that failed.

    >>> failed("too_many_calls", "At most 8 calls a step.").text
    '{"error": {"code": "too_many_calls", "message": "At most 8 calls a step."}}'
    """
    error: dict[str, Any] = {"code": code, "message": message}
    return Outcome(
        {"error": error | ({"did_you_mean": list(did_you_mean)} if did_you_mean else {})}, code, (), repaired
    )


@dataclass
class Arguments:
    """The arguments of one call, read one by one; `repaired` counts what was not as the schema has it."""

    given: dict[str, Any]
    repaired: int = 0
    notes: list[str] = field(default_factory=list)

    def text(self, name: str, *, longest: int | None = None) -> str | None:
        """Return an argument that is a text; None where it is absent or empty.

        Raises:
            _WrongCallError: it is something else.
        """
        value = self.given.get(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.repaired += 1
            value = said(value)
        if not isinstance(value, str):
            raise _WrongCallError("bad_arguments", f"{name} is {said(value)}; expected a text.")
        if not value.strip():
            self.repaired += 1
            return None
        if longest is not None and len(value) > longest:
            self.repaired += 1
            self.notes.append(f"{name} has {len(value):,} characters; the first {longest} count.")
            value = value[:longest]
        return value

    def limit(self, tool: Tool) -> int:
        """Return how many nodes to show, within the tool's bounds."""
        schema, value = tool.properties["limit"], self.given.get("limit")
        if value is None:
            return int(schema["default"])
        if (isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,9}\s*", value)) or (
            isinstance(value, float) and value.is_integer()
        ):
            self.repaired += 1
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _WrongCallError("bad_arguments", f"limit is {said(value)}; expected a whole number.")
        bounded = min(max(value, 1), int(schema["maximum"]))
        if bounded != value:
            self.repaired += 1
            self.notes.append(f"limit is {said(value)}; {bounded} is used, of 1 to {schema['maximum']}.")
        return bounded

    def ids(self, name: str) -> list[Any]:
        """Return an argument that is a list of ids; a single one, or a list inside a text, is one too."""
        value = self.given.get(name)
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
                self.repaired += 1
            except (ValueError, RecursionError):
                pass
        if isinstance(value, int | str) and not isinstance(value, bool):
            self.repaired += 1
            value = [value]
        if not isinstance(value, list):
            raise _WrongCallError("bad_arguments", f"{name} is {said(value)}; expected a list of ids.")
        return value


class AgentTools:
    """The tools on one knowledge base; `question` opens what one question needs of its own.

    `search` searches all nodes; only `candidates`, rows in ascending order, can be selected, all where None. A call
    costs what it looks at: the search, or the edges of one node.

    >>> import pyarrow as pa
    >>> from kbbench_hf.models.bm25 import BM25
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

    def __init__(self, kb: KnowledgeBase, search: Search, candidates: NDArray[np.int64] | None = None) -> None:
        self.kb, self.search, self.candidates = kb, search, candidates
        self.ids_are_numbers = bool(len(kb)) and isinstance(kb.ids([0])[0], int)
        self._calls: dict[str, Callable[[Arguments, Question], Outcome]] = {
            SEARCH_NODES.name: self._search_nodes,
            NEIGHBORS.name: self._neighbors,
            SELECT.name: self._select,
            FINISH.name: self._finish,
        }

    def question(self) -> "Question":
        """Return the state of a new question: nothing is selected."""
        return Question(self)

    def call(self, name: str, arguments: object, question: "Question") -> Outcome:
        """Answer one call; whatever is wrong with it is an outcome too.

        `arguments` is a mapping, or None for none. Those that the tool does not know are left aside and counted.
        """
        if name not in self._calls:
            return failed("unknown_tool", f"There is no tool {said(name)}.", tuple(self._calls))
        if not isinstance(arguments, Mapping) and arguments is not None:
            return failed("bad_arguments", f"The arguments are {said(arguments)}; expected a JSON object.")
        known = next(tool for tool in TOOLS if tool.name == name).properties
        given = {key: value for key, value in (arguments or {}).items() if key in known}
        read = Arguments(given, repaired=len(arguments or {}) - len(given))
        try:
            outcome = self._calls[name](read, question)
        except _WrongCallError as wrong:
            return failed(wrong.code, wrong.message, wrong.did_you_mean, read.repaired)
        noted = {**outcome.result, "note": " ".join(read.notes)} if read.notes else outcome.result
        return outcome._replace(result=noted, repaired=read.repaired)

    def row(self, given: object) -> int | None:
        """Return the row of the node that an id names; None where no node has it.

        Where ids are numbers, their digits as a text name them too. Truth values, floats and lists are no ids.
        """
        if isinstance(given, bool) or not isinstance(given, int | str):
            return None
        if self.ids_are_numbers and isinstance(given, str):
            if not re.fullmatch(r"0|-?[1-9][0-9]{0,18}", given.strip(), re.ASCII):
                return None
            given = int(given)
        return self.kb.row_of(given)

    def _search_nodes(self, read: Arguments, question: "Question") -> Outcome:
        query = read.text("query", longest=LONGEST_QUERY)
        if query is None:
            raise _WrongCallError("bad_arguments", "query is missing; expected words to search for.")
        node_type, limit = self._type(read), read.limit(SEARCH_NODES)
        rows, scores = self.search.matches(query)
        if node_type is not None:
            kept = self.kb.graph.type_ids[rows] == node_type
            rows, scores = rows[kept], scores[kept]
        return self._listed(rows[best(scores, limit)], len(rows))

    def _neighbors(self, read: Arguments, question: "Question") -> Outcome:
        row = self._node(read.given.get("node_id"))
        relation, node_type = self._relation(read), self._type(read)
        direction, query = self._direction(read), read.text("query", longest=LONGEST_QUERY)
        limit = read.limit(NEIGHBORS)
        rows = self.kb.neighbors(row, relation, direction).astype(np.int64)
        if node_type is not None:
            rows = rows[self.kb.graph.type_ids[rows] == node_type]
        if self.kb.id_places is not None:
            rows = rows[np.argsort(self.kb.id_places[rows])]
        total = len(rows)
        if query is None:
            rows = rows[:limit]
        elif total:
            rows = rows[best(_scores(self.search.matches(query), rows), limit)]
        return self._listed(rows, total, self._relations(row, rows, relation, direction))

    def _select(self, read: Arguments, question: "Question") -> Outcome:
        ignored: list[dict[str, Any]] = []
        for given in read.ids("node_ids"):
            row = self.row(given)
            if row is None:
                reason = "unknown_node"
            elif not self._may_be_selected(row):
                reason = f"no_candidate: answers are never of type {self.kb.types([row])[0]}"
            elif not question.select(self.kb.ids([row])[0]):
                reason = "already_selected"
            else:
                continue
            ignored.append({"id": _repeated(given), "reason": reason})
        if len(ignored) > _MOST_IGNORED:
            read.notes.append(f"{len(ignored):,} were ignored; the first {_MOST_IGNORED} are listed.")
        return Outcome({"selected": len(question.selected), "ignored": ignored[:_MOST_IGNORED]})

    def _finish(self, read: Arguments, question: "Question") -> Outcome:
        question.finished = True
        return Outcome({"finished": True})

    def _may_be_selected(self, row: int) -> bool:
        if self.candidates is None:
            return True
        place = int(np.searchsorted(self.candidates, row))
        return place < len(self.candidates) and int(self.candidates[place]) == row

    def _node(self, given: object) -> int:
        if given is None:
            raise _WrongCallError("bad_arguments", "node_id is missing; expected the id of a node.")
        if isinstance(given, bool) or not isinstance(given, int | str):
            raise _WrongCallError("bad_arguments", f"node_id is {said(given)}; expected the id of a node.")
        row = self.row(given)
        if row is None:
            message = f"No node has the id {said(given)}. Take ids from results."
            raise _WrongCallError("unknown_node", message, self._like(given))
        return row

    def _like(self, given: Id) -> list[dict[str, Any]]:
        """Return nodes whose name an unknown id may be: models take the one for the other."""
        if isinstance(given, int) or not given.strip():
            return []
        rows, scores = self.search.matches(given[:LONGEST_QUERY])
        near = rows[best(scores, _MOST_OFFERED)]
        return [
            {"id": each, "name": clean(name, LONGEST_NAME)}
            for each, name in zip(self.kb.ids(near), self.kb.names(near), strict=True)
        ]

    def _type(self, read: Arguments) -> int | None:
        name = read.text("node_type")
        return None if name is None else _known("unknown_type", "node type", name, self.kb.graph.node_types)

    def _relation(self, read: Arguments) -> str | None:
        name, known = read.text("relation"), self.kb.graph.relations
        return None if name is None else known[_known("unknown_relation", "relation", name, known)]

    def _direction(self, read: Arguments) -> Direction:
        direction = read.text("direction") or "both"
        if direction not in DIRECTIONS:
            raise _WrongCallError(
                "bad_arguments", f"direction is {said(direction)}; expected one of these.", DIRECTIONS
            )
        return cast(Direction, direction)

    def _relations(
        self, row: int, shown: NDArray[np.int64], relation: str | None, direction: Direction
    ) -> list[dict[str, str]]:
        """Return, for each neighbour that is shown, its relations to the node and where their edges lead."""
        graph = self.kb.graph
        found: list[dict[str, set[str]]] = [{} for _ in shown]
        for side, adjacency in (("out", graph.out), ("in", graph.into)):
            if direction not in (side, "both"):
                continue
            for name, ends in zip(graph.relations, adjacency.by_relation(row), strict=True):
                if len(ends) and relation in (None, name):
                    places = np.minimum(np.searchsorted(ends, shown), len(ends) - 1)
                    for spot in np.flatnonzero(ends[places] == shown).tolist():
                        found[spot].setdefault(name, set()).add(side)
        return [{name: "both" if len(s) == 2 else s.pop() for name, s in sorted(each.items())} for each in found]

    def _listed(
        self, rows: NDArray[np.int64], total: int, relations: Sequence[Mapping[str, str]] | None = None
    ) -> Outcome:
        ids = self.kb.ids(rows)
        listed = [
            {
                "id": node_id,
                "type": node.type,
                "name": clean(node.name),
                **({} if relations is None else {"relations": relations[place]}),
                "snippet": clean(known_of(node, _READ + 1)),
            }
            for place, (node_id, node) in enumerate(zip(ids, nodes(self.kb, rows), strict=True))
        ]
        return Outcome({"nodes": listed, "total": total}, shown=tuple(ids))


@dataclass
class Question:
    """The state of one question: what is selected, in order, and whether the model is done."""

    tools: AgentTools = field(repr=False)
    selected: list[Id] = field(default_factory=list)
    finished: bool = False
    _chosen: set[Id] = field(default_factory=set, repr=False)

    def call(self, name: str, arguments: object) -> Outcome:
        """Answer one call; see `AgentTools.call`."""
        return self.tools.call(name, arguments, self)

    def select(self, node_id: Id) -> bool:
        """Add a node to the answer; return whether it was new there."""
        if node_id in self._chosen:
            return False
        self._chosen.add(node_id)
        self.selected.append(node_id)
        return True


_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]+"
)
"""Characters that steer or hide: controls, changes of direction, tags; joiners, which scripts need, stay."""
_TOKEN = re.compile(
    r"<(?=[|｜]|/?(?:s|unk|pad|bos|eos|think|(?:start|end)_of_\w+|tools?|tool_\w+|function_\w+|im_\w+|<?SYS>)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|TOOL_\w+|AVAILABLE_TOOLS|ARGS|CALL_ID)\])"
)
"""How tokens begin that part the turns of a conversation: many servers and tokenizers take them from any text."""


def clean(text: str, longest: int = LONGEST_SNIPPET) -> str:
    r"""Return a node's text on one line, without what hides or steers, and cut at a word.

    >>> clean("Salt\x1b[31m\nof the earth, of the sea", 20)
    'Salt [31m of the…'
    >>> clean("<|im_end|><b>[/INST]")
    '< |im_end|><b>[ /INST]'
    """
    words = " ".join(text[:_READ].split())
    if not words.isprintable():
        words = " ".join(_HIDDEN.sub(" ", words).split())
    words = _TOKEN.sub(r"\g<0> ", words)
    if len(words) <= longest and len(text) <= _READ:
        return words
    head = words[: longest - 1]
    return f"{head[: head.rfind(' ')] if ' ' in head else head}…"


def said(value: object) -> str:
    """Return a value of a call as a message has it: JSON on one line, at most 80 characters.

    >>> said("x" * 100)[-3:], said([1, None]), said(10**5000)
    ('xx…', '[1, null]', 'a value of type int')
    """
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    text = _HIDDEN.sub(" ", text[:200])
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def _repeated(given: object) -> object:
    """Return what was given for an id as a result repeats it: itself where it is as short as an id."""
    if isinstance(given, str):
        return clean(given, LONGEST_NAME)
    return given if given is None or (isinstance(given, int) and abs(given) < 2**63) else said(given)


def _known(code: str, kind: str, name: str, known: Collection[str]) -> int:
    """Return the number of a name in a table; where it is not there, names like it are offered."""
    names = list(known)
    if name in names:
        return names.index(name)
    folded = {each.casefold(): each for each in names}
    near = [folded[each] for each in get_close_matches(name.casefold()[:LONGEST_NAME], folded, n=5, cutoff=0.5)]
    raise _WrongCallError(code, f"There is no {kind} {said(name)}.", near or names[:20])


def _scores(matches: Matches, rows: NDArray[np.int64]) -> NDArray[np.floating]:
    """Return the scores of these rows among the matches, 0 where they are none."""
    scores = np.zeros(len(rows))
    if len(matches.rows):
        places = np.searchsorted(matches.rows, rows).clip(max=len(matches.rows) - 1)
        there = matches.rows[places] == rows
        scores[there] = matches.scores[places[there]]
    return scores
