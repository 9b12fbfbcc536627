"""Plan generator: a trained causal language model that writes plans with slots in place of entities.

A question is written with a slot for each linked entity, followed by the types that these may have::

    which bridges are in <e1> and were built by <e2>? <types> <e1> district <e2> contractor <plan>

So names are never copied, and those of other entities are as good. The model goes on with a plan, of which only what
the knowledge base has can be written (`PlanGrammar`): types, relations, directions, slots, and the remainder of text or
the value of an attribute test as a slot (`<v1>`) for what the question quotes or counts. Walks are written from the
answer back to the entity, the order in which questions mention them::

    bridge <walk> <e1> district <out> located in <to> district
           <walk> <e2> contractor <out> built by <to> contractor <end>

The plan ranker builds it for `plan:FOLDER`; training writes examples with `prompt` and `spell_plan`. Trained models
read and write exactly these texts: a change of them is a new `FORMAT`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.knowledge_base.metapaths import Hop, MetapathWalk, reverse_hops
from kbbench_hf.knowledge_base.plans import AttributeTest, Operator, Plan, PlanSchema
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.graph_ranker.entity_linking import EntityLinker
from kbbench_hf.retrieval.graph_ranker.query_words import stem, words
from kbbench_hf.retrieval.planner import PlanCandidate, PlanQuery
from kbbench_hf.retrieval.trained_folder import PLAN
from kbbench_hf.text.words import WORD

FORMAT = 2
"""Format of a trained planner's prompts and plans; planners of other formats are refused.

It rises when `SPECIAL`, `SlotFinder`, `prompt`, `spell_plan`, `spell_hop` or the texts of types change.
1: walks from the entity to the answer.
"""
MOST_SLOTS, MOST_WALKS = 5, 3
ENTITY, VALUE = [f"<e{n + 1}>" for n in range(MOST_SLOTS)], [f"<v{n + 1}>" for n in range(MOST_SLOTS)]
TYPES, PLAN_SIGN, WALK, NOT, OUT, IN, TO, TEXT, TEST, EQUAL, LEAST, MOST, END, PAD = SIGNS = (
    *("<types>", "<plan>", "<walk>", "<not>", "<out>", "<in>", "<to>", "<text>", "<test>"),
    *("<equal>", "<least>", "<most>", "<end>", "<pad>"),
)
SPECIAL = [*SIGNS, *ENTITY, *VALUE]
LEAST_STRENGTH = 0.3
"""The strength of a link below which an entity has no slot, half of that of a name whose words are all common."""
N_PLANS, MOST_TOKENS, BATCH = 4, 100, 32
"""Plans of a query, tokens of a plan, queries of a batch."""
_VALUE = re.compile(r'["“]([^"”]+)["”]|(?<![\w<])(\d+(?:\.\d+)?)(?!\w)')
DIRECTIONS = {"out": OUT, "in": IN}
OPERATORS: Mapping[str, Operator] = {EQUAL: "=", LEAST: ">=", MOST: "<="}
Rows = NDArray[np.int64]


class SlottedQuery(NamedTuple):
    """A question with slots for its linked entities and values."""

    text: str
    entities: tuple[Rows, ...]
    """The rows that the mention of each slot may mean."""
    values: tuple[str, ...]

    def types(self, kb: KnowledgeBase) -> list[str]:
        """Return the types that the mention of each slot may have, in one text."""
        return [" / ".join(sorted({*kb.types(rows)})) for rows in self.entities]


class SlotFinder:
    """Replaces what a question names, quotes or counts by slots."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb, self._linker = kb, EntityLinker(kb.names())
        self._schema_words = {word for name in (*kb.graph.node_types, *kb.graph.relations) for word in words(name)}

    def find(self, query: str) -> SlottedQuery:
        """Return the question with its slots, in the order of the text; a quoted name has two."""
        spans: list[tuple[int, int, Rows | None, str]] = []
        for start, stop, mentioned in self.mentions(query):
            if all(stop <= other[0] or other[1] <= start for other in spans):
                spans.append((start, stop, mentioned, ""))
        for match in _VALUE.finditer(query):
            inside = [each for each in spans if match.start() < each[1] and each[0] < match.end()]
            if match[1] or not inside:
                rows = inside[0][2] if [each[:2] for each in inside] == [match.span(1)] else None
                spans = [each for each in spans if each not in inside]
                spans.append((*match.span(), rows, match[1] or match[2]))
        parts, entities, values, last = list[str](), list[Rows](), list[str](), 0
        for start, stop, rows, value in sorted(spans, key=lambda each: each[0]):
            parts.append(query[last:start].lower())
            last = stop
            if rows is not None and len(entities) < MOST_SLOTS:
                parts.append(ENTITY[len(entities)])
                entities.append(rows)
            if value and len(values) < MOST_SLOTS:
                parts.append(VALUE[len(values)])
                values.append(value)
        return SlottedQuery(" ".join(" ".join([*parts, query[last:].lower()]).split()), tuple(entities), tuple(values))

    def mentions(self, query: str) -> list[tuple[int, int, Rows]]:
        """Return the linked names as (start, stop, rows that it may mean), whole names and long ones first.

        `start` and `stop` count characters of the query; mentions may overlap.
        """
        tokens = [(match.start(), match.end(), match[0].lower()) for match in WORD.finditer(query)]
        linked = self._linker.link(query)
        mentions: dict[tuple[bool, int, int, int], list[int]] = {}
        weak = linked.strength < LEAST_STRENGTH * linked.surest
        for row, name, is_weak in zip(linked.rows.tolist(), self.kb.names(linked.rows), weak, strict=True):
            if not (found := _find_name(name, tokens)):
                continue
            partial, first, last = found
            start, stop = tokens[first][0], tokens[last][1]
            of_schema = self._schema_words.issuperset(words(query[start:stop]))  # "projects" is not "Project X"
            if name in query or not (is_weak or (partial and of_schema)):
                mentions.setdefault((partial, start - stop, start, stop), []).append(row)
        return [(start, stop, np.array(rows)) for (_, _, start, stop), rows in sorted(mentions.items())]


def _find_name(name: str, tokens: Sequence[tuple[int, int, str]]) -> tuple[bool, int, int] | None:
    """Return whether only a part of a name is spelled, and its first and last token; None where it is scattered."""
    spelled = [word.lower() for word in WORD.findall(name)]
    for place in range(len(tokens) - len(spelled) + 1):
        if [word for _, _, word in tokens[place : place + len(spelled)]] == spelled:
            return False, place, place + len(spelled) - 1
    stems = set(words(name))
    own = [place for place, (_, _, word) in enumerate(tokens) if stem(word) in stems]
    runs = [
        (-len({stem(tokens[place][2]) for place in own if first <= place <= last}), last - first, first, last)
        for first in own
        for last in own
        if first <= last < first + len(spelled) + 1
    ]
    if not runs or -min(runs)[0] < len(stems) - 1:
        return None
    return True, *min(runs)[2:]


@dataclass(frozen=True)
class _State:
    """A plan of which a part is written."""

    plan: Plan
    slots: tuple[int, ...] = ()
    """Those of its walks."""
    walk: MetapathWalk | None = None
    """The walk in progress; its hops lead from the answer on."""
    is_exclusion: bool = False
    is_whole: bool = False


Encode = Callable[[str], Sequence[int]]
"""Text -> the numbers of its tokens."""
Alternatives = tuple[tuple[tuple[int, ...], _State], ...]
"""What may follow: the rest of the tokens that a state is reached by, and the state."""


class PlanGrammar:
    """The plans that may be written for a question: what may follow after each token."""

    def __init__(self, kb: KnowledgeBase, encode: Encode, max_hops: int = 2) -> None:
        self._schema, self._encode, self._kb = PlanSchema.of(kb), encode, kb
        (self.end,) = encode(END)
        hops = self._schema.hops
        self._reach: list[dict[str, set[str]]] = [{kind: {kind} for kind in hops}]
        for _ in range(max_hops):  # node type -> the types that are at most so many hops away
            before = self._reach[-1]
            self._reach.append(
                {kind: before[kind].union(*(before[hop.node_type] for hop in hops[kind])) for kind in hops}
            )

    def start(self, query: SlottedQuery) -> Alternatives:
        """Return what a plan may begin with; nothing where the query has no slot of an entity."""
        return self._open([((), _State(Plan("")))], query)

    def after(self, alternatives: Alternatives, token: int, query: SlottedQuery) -> Alternatives:
        """Return what may follow after another token; nothing where the token is not allowed."""
        return self._open([(rest[1:], state) for rest, state in alternatives if rest[:1] == (token,)], query)

    def _open(self, alternatives: Sequence[tuple[tuple[int, ...], _State]], query: SlottedQuery) -> Alternatives:
        result: list[tuple[tuple[int, ...], _State]] = []
        for rest, state in alternatives:
            if rest or state.is_whole:
                result.append((rest, state))
            else:
                result += [(tuple(self._encode(symbol)), after) for symbol, after in self._next(state, query)]
        return tuple(result)

    def _next(self, state: _State, query: SlottedQuery) -> Iterator[tuple[str, _State]]:
        """Yield what may follow, as text, and the state after it."""
        plan, walk = state.plan, state.walk
        if not plan.answer_type:
            types = {kind for rows in query.entities for kind in self._kb.types(rows)}
            yield from ((kind, _State(Plan(kind))) for kind in self._schema.hops if types & self._reach[-1][kind])
            return
        if walk:
            place = walk.hops[-1].node_type if walk.hops else plan.answer_type
            left = len(self._reach) - 2 - len(walk.hops)
            for hop in self._schema.hops[place] if left >= 0 else ():
                if walk.start_type in self._reach[left][hop.node_type]:
                    yield spell_hop(hop), replace(state, walk=replace(walk, hops=(*walk.hops, hop)))
            if not walk.hops or place != walk.start_type:
                return
            *before, last = reverse_hops(plan.answer_type, walk.hops)
            done = replace(walk, hops=(*before, replace(last, negated=state.is_exclusion)))
            plan = replace(plan, walks=(*plan.walks, done))
            state = _State(plan, state.slots)
        if not plan.attributes and not plan.text:
            yield from self._walks(state, query)
        if plan.walks:
            yield from self._tests(state, query)
            yield END, replace(state, is_whole=True)

    def _walks(self, state: _State, query: SlottedQuery) -> Iterator[tuple[str, _State]]:
        if len(state.plan.walks) >= MOST_WALKS:
            return
        reachable = self._reach[-1][state.plan.answer_type]
        signs = {WALK: False, NOT: True} if state.plan.walks else {WALK: False}
        for number, rows in enumerate(query.entities):
            if number in state.slots:
                continue
            first: dict[str, str] = {}  # type -> the name of its first row
            for name, kind in zip(self._kb.names(rows), self._kb.types(rows), strict=True):
                first.setdefault(kind, name)
            for kind in sorted(first.keys() & reachable):
                for sign, is_exclusion in signs.items():
                    walk, slots = MetapathWalk(first[kind], kind, ()), (*state.slots, number)
                    yield f"{sign}{ENTITY[number]}{kind}", _State(state.plan, slots, walk, is_exclusion)

    def _tests(self, state: _State, query: SlottedQuery) -> Iterator[tuple[str, _State]]:
        plan = state.plan
        texts = plan.text.split("; ") if plan.text else []
        for number, text in enumerate(query.values):
            if text not in texts:
                yield f"{TEXT}{VALUE[number]}", replace(state, plan=replace(plan, text="; ".join([*texts, text])))
            if texts:  # tests are written before texts
                continue
            for field, kind in self._schema.fields[plan.answer_type].items():
                is_text = kind is str or not isinstance(kind, type)
                is_known = isinstance(kind, type) or text in kind
                value = (text if is_known else None) if is_text else number_of(text)
                if value is None:
                    continue
                for sign in [EQUAL] if is_text else OPERATORS:
                    test = AttributeTest(field, OPERATORS[sign], value)
                    if test not in plan.attributes:
                        tested = replace(plan, attributes=(*plan.attributes, test))
                        yield f"{TEST}{field}{sign}{VALUE[number]}", replace(state, plan=tested)


def spell_hop(hop: Hop) -> str:
    """Return a hop as the model writes it."""
    return f"{DIRECTIONS[hop.direction]}{hop.relation}{TO}{hop.node_type}"


def spell_plan(plan: Plan) -> str:
    """Return a plan whose entities, values and texts are slots as the model writes it."""
    signs = {operator: sign for sign, operator in OPERATORS.items()}
    walks = (
        f"{NOT if walk.hops[-1].negated else WALK}{walk.topic}{walk.start_type}"
        f"{''.join(map(spell_hop, reverse_hops(walk.start_type, walk.hops)))}"
        for walk in plan.walks
    )
    tests = (f"{TEST}{test.field}{signs[test.op]}{test.value}" for test in plan.attributes)
    texts = (f"{TEXT}{slot}" for slot in plan.text.split("; ") if slot)
    return "".join([plan.answer_type, *walks, *tests, *texts, END])


def number_of(text: str) -> int | float | None:
    """Return the number that a text is; None for other texts."""
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return None


def prompt(text: str, types: Sequence[str]) -> str:
    """Return what the model reads: the question with its slots, and the types of each."""
    return f"{text}{TYPES}{''.join(map(''.join, zip(ENTITY, types, strict=False)))}{PLAN_SIGN}"


def build(folder: Path, kb: KnowledgeBase, finder: SlotFinder | None = None) -> "PlanGenerator":
    """Build the planner in the folder that `kbbench train --method plan` wrote.

    Raises:
        UsageError: it writes plans in another format.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    settings = read_json(folder / PLAN)
    if (found := settings.get("format", 1)) != FORMAT:
        raise UsageError(
            f"{folder} has a planner that writes plans in format {found}; expected {FORMAT}. Train it again: "
            "kbbench train NAME --method plan"
        )
    model = AutoModelForCausalLM.from_pretrained(folder)
    return PlanGenerator(model, AutoTokenizer.from_pretrained(folder), kb, settings["max_hops"], finder)


class PlanGenerator:
    """Writes plans of queries to one knowledge base by beam search over what its grammar allows.

    Args:
        model: a causal language model of transformers.
        tokenizer: its tokenizer, with the signs of the grammar.
        kb: the knowledge base.
        max_hops: hops of the longest walk.
        finder: finds the slots of queries.
    """

    least_sure = 0.6
    """Plans that are together less sure of every node are ignored.

    On validation questions of two knowledge bases, 0.4 to 0.6 are alike: plans are mostly sure, also wrong ones.
    """

    def __init__(
        self, model: Any, tokenizer: Any, kb: KnowledgeBase, max_hops: int, finder: SlotFinder | None = None
    ) -> None:
        self._model, self._tokenizer, self._kb, self.finder = model, tokenizer, kb, finder or SlotFinder(kb)
        self._encode = encoder(tokenizer)
        self._grammar = PlanGrammar(kb, self._encode, max_hops)

    def plans(self, queries: Sequence[PlanQuery]) -> list[list[PlanCandidate]]:
        """Return the plans of each query and their probabilities, best first; none without a linked entity."""
        return self.plans_of([self.finder.find(query.text) for query in queries])

    def plans_of(self, queries: Sequence[SlottedQuery]) -> list[list[PlanCandidate]]:
        """Return the plans of queries whose slots are known, in the order of the queries; see `plans`."""
        result: list[list[PlanCandidate]] = [[] for _ in queries]
        order = [n for n, query in enumerate(queries) if self._grammar.start(query)]
        order.sort(key=lambda n: len(queries[n].text))  # so that batches have little padding
        was_training = self._model.training
        self._model.eval()
        for start in range(0, len(order), BATCH):
            numbers = order[start : start + BATCH]
            for number, plans in zip(numbers, self._write([queries[n] for n in numbers]), strict=True):
                result[number] = plans
        self._model.train(was_training)
        return result

    def _write(self, queries: Sequence[SlottedQuery]) -> list[list[PlanCandidate]]:
        import torch

        given = [self._encode(prompt(query.text, query.types(self._kb))) for query in queries]
        width, pad = max(map(len, given)), self._tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (width - len(each)) + list(each) for each in given], device=self._model.device)

        @cache
        def states(query: int, tokens: tuple[int, ...]) -> Alternatives:
            if not tokens:
                return self._grammar.start(queries[query])
            return self._grammar.after(states(query, tokens[:-1]), tokens[-1], queries[query])

        def allowed(query: int, tokens: Any) -> list[int]:
            after = states(query, tuple(tokens.tolist()[width:]))
            return sorted({rest[0] for rest, _ in after if rest}) or [self._grammar.end]

        with torch.inference_mode():
            written = self._model.generate(
                ids,
                attention_mask=(ids != pad).long(),
                num_beams=N_PLANS,
                num_return_sequences=N_PLANS,
                do_sample=False,
                max_new_tokens=MOST_TOKENS,
                length_penalty=0.0,
                renormalize_logits=True,
                early_stopping=False,  # until no unfinished plan can have a higher score
                eos_token_id=self._grammar.end,
                pad_token_id=pad,
                prefix_allowed_tokens_fn=allowed,
                output_scores=True,
                return_dict_in_generate=True,
            )
        result: list[list[PlanCandidate]] = [[] for _ in queries]
        lines = zip(written.sequences[:, width:].tolist(), written.sequences_scores.exp().tolist(), strict=True)
        for place, (tokens, score) in enumerate(lines):
            own = tokens[: tokens.index(self._grammar.end) + 1] if self._grammar.end in tokens else []
            for _, state in states(place // N_PLANS, tuple(own)) if own and score > 0 else ():
                result[place // N_PLANS].append(PlanCandidate(state.plan, score))
        return result


def encoder(tokenizer: Any) -> Encode:
    """Return the function that encodes a text without the special tokens that a tokenizer adds at its ends."""
    return lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
