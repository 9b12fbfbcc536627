"""Interfaces of models (retriever, embedder, language model, judge), and the values they exchange with runs.

Whatever has these methods is such a model; nothing needs to be inherited. Models of users and plug-ins rely on names,
order of arguments and fields: add fields with a default only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ProcessGroup:
    """The part of the work that this process (or thread) has: the `rank`-th of `size`."""

    rank: int = 0
    size: int = 1
    gather: Callable[[Any], list[Any]] = lambda value: [value]
    """Gives every process the values of all, in order of rank; all of them must call it."""

    def shard(self, items: range) -> range:
        """Return this part of `items`: contiguous, and as even as can be.

        >>> [list(ProcessGroup(rank, 2).shard(range(3))) for rank in range(2)]
        [[0], [1, 2]]
        """
        return items[self.rank * len(items) // self.size : (self.rank + 1) * len(items) // self.size]


class Ranking(NamedTuple):
    """The best candidates of each query: ids and scores, both of shape (queries, k), best first.

    Rows shorter than k are padded with id -1 and score -inf.
    """

    ids: NDArray[np.int64]
    scores: NDArray[np.float64]


class Matches(NamedTuple):
    """The nodes that match a query: rows, ascending, and the score of each."""

    rows: NDArray[np.int64]
    scores: NDArray[np.floating]


class Retriever(Protocol):
    """Ranks the nodes of the knowledge base it was built on, by their rows; what ours are made of."""

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best node positions of every query: score descending, then id ascending."""
        ...


def matched(searcher: object, queries: Sequence[str]) -> NDArray[np.bool_]:
    """Return whether a searcher matches each query with anything; all, where it has no method `matched` that tells."""
    find = getattr(searcher, "matched", None)
    return np.ones(len(queries), dtype=bool) if find is None else np.asarray(find(queries), dtype=bool)


class Edge(NamedTuple):
    """One edge of a path: a relation, and whether it is followed from head to tail."""

    relation: str
    forward: bool


class Path(NamedTuple):
    """A path from a linked entity to a node: the names of its nodes, and the edges between."""

    nodes: Sequence[str]
    edges: Sequence[Edge]


class Reasons(NamedTuple):
    """The signals of a node, which add up to its score, and its paths from linked entities."""

    id: str | int
    """The dataset's own, not the row."""
    name: str
    type: str
    signals: Mapping[str, float]
    """Signal -> its share of the score."""
    paths: Sequence[Path]


class PlanExplanation(NamedTuple):
    """A plan of a query (see `knowledge_base.plans`) and its entities: what is needed to execute it again."""

    plan: str
    """As executed, after relaxation."""
    planned: str
    """As the planner wrote it."""
    score: float
    relaxations: Sequence[str]
    """What was left out of the plan or changed, in order, because no node met it."""
    starts: Sequence[Sequence[str | int] | None]
    """The ids of the nodes that each path of `plan` starts from; None for all nodes of a type."""


class RankingExplanation(NamedTuple):
    """A query as a retriever parsed it, and the signals of its best node and of the gold nodes."""

    asked: Sequence[str]
    """The noun phrases that the query asks for."""
    types: Sequence[tuple[str, float]]
    """The most probable answer types, best first."""
    named: Sequence[str]
    """The linked entities."""
    excluded: str
    """The exclusions of the query."""
    winner: Reasons
    gold: Sequence[Reasons]
    linked: Sequence[str | int] | None = None
    """The ids of the linked entities, those of exclusions too; None for retrievers without plans."""
    plans: Sequence[PlanExplanation] | None = None
    """Best first; None for retrievers without plans."""


class Embedder(Protocol):
    """Turns texts into vectors; `name` says which model and revision, because thresholds belong to it."""

    name: str

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, shape (n, dimension)."""
        ...


class QueryEmbedder(Protocol):
    """Turns queries into vectors."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per query, shape (n, dimension)."""
        ...


MOST_TOKENS = 10**9
"""A larger count of tokens is absurd, and unknown."""


def token_count(value: object) -> int | None:
    """Return a count of tokens as a server gives it; None where it is none, negative or absurd.

    >>> token_count(12), token_count("12"), token_count(-1), token_count(10**400), token_count(3.0), token_count(True)
    (12, None, None, None, 3, None)
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None


class Completion(NamedTuple):
    """What a language model answered to one prompt; `error` names what went wrong, else it is None.

    What a server does not say is None. `completion_tokens` is its own count, in which some leave the reasoning out;
    `produced_tokens` is what was produced and paid for.
    """

    text: str
    """The answer; empty where there was an error."""
    finish_reason: str
    """Why it ended, as the server says: "stop", or "length" where it was cut off."""
    prompt_tokens: int | None
    completion_tokens: int | None
    latency_s: float
    """Seconds from request to answer."""
    error: str | None = None
    reasoning: str | None = None
    """The reasoning before the answer, where the server sends it in a field of its own."""
    model: str | None = None
    """The model that answered, as the server names it."""
    system_fingerprint: str | None = None
    """The server's mark of its weights and build."""
    provider: str | None = None
    """The provider that a router chose."""
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    total_tokens: int | None = None
    tool_calls: object = None
    """The calls of tools in it, as the server sent them; see `parsing.tool_calls`."""

    @property
    def produced_tokens(self) -> int | None:
        """How many tokens the model produced, its reasoning included.

        >>> Completion("Hello", "stop", 12, 1, 0.5, reasoning_tokens=228, total_tokens=241).produced_tokens
        229
        """
        if self.total_tokens is None or self.prompt_tokens is None:
            return self.completion_tokens
        return max(self.total_tokens - self.prompt_tokens, self.completion_tokens or 0)


Message = Mapping[str, Any]
"""One message of a chat: its `role`, its `content`, a text, and what else a conversation with tools has."""
Found = Sequence[str | int] | Sequence[tuple[str | int, float]]
"""The results of a query, best first: the dataset's ids, or pairs of id and score."""


class Searcher(Protocol):
    """Answers queries with candidates, by the ids that the dataset has."""

    def search(self, queries: Sequence[str], top_k: int) -> Sequence[Found]:
        """Return what each query finds, best first, at most `top_k` each."""
        ...


class Generator(Protocol):
    """A language model that answers many prompts at a time.

    One that takes `parameters` and `seed` gets them too: those of a chat request for each prompt (temperature, top_p,
    stop), and what seeds the batch. `name`, where it has one, says which model and revision it is.
    """

    def generate(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> Sequence["str | Completion"]:
        """Return one answer per chat prompt, in order."""
        ...


class Chat(Protocol):
    """A language model that answers one prompt at a time, many at once.

    One that takes keyword arguments gets the sampling and the JSON schema of each request. An exception is an answer
    that failed: kept with its words, and asked again when the run is started again.
    """

    async def complete(self, messages: Sequence[Message], max_tokens: int) -> "str | Completion":
        """Return the answer to one chat prompt."""
        ...


LanguageModel = Generator | Chat


def produced_tokens(record: Mapping[str, Any]) -> int | None:
    """Return the produced tokens in a record of a journal; None where the server sent none, or an impossible number."""
    produced = record.get("produced_tokens")
    return token_count(record["completion_tokens"] if produced is None else produced)


def name_of(model: object) -> str:
    """Return what a model is called: its `name`, or its class."""
    return str(getattr(model, "name", None) or type(model).__qualname__)


class Verdict(NamedTuple):
    """One judgement: `value` is None where `status` is not "ok"; `raw` keeps the reply as it came."""

    value: float | None
    status: str
    raw: str


class Judge(Protocol):
    """Judges items of text; `name` carries model, revision and prompt hash."""

    name: str

    def judge(self, items: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Return one verdict per (text, claim), in order."""
        ...


@runtime_checkable
class Tunable(Judge, Protocol):
    """A judge whose verdicts follow from a probability by a threshold, which a calibration may choose."""

    untuned: str
    """Its name whatever its threshold."""
    chosen: bool
    """Whether the user chose its threshold, which no calibration may then change."""

    def at(self, threshold: float) -> Self:
        """Return the same judge with another threshold."""
        ...

    def read(self, raw: str) -> float:
        """Return the verdict that the `raw` of one comes to with this judge's threshold."""
        ...

    def probability(self, raw: str) -> float:
        """Return the probability of yes that the `raw` of a verdict has."""
        ...
