"""Training examples of planners: questions with slots and their plans, split into parts and composed anew.

Parts of a question are questions too. "Which bridges cross <e1> and were built by <e2>?" has one for each path, "which
firms built the bridges that cross <e1>" an outer and an inner one. Any two that fit are composed: joined by "and", or
one in place of an entity of the other. So the model sees all combinations of the relations up to the size limits, also
those that no question has. In some examples, words are missing.

The training of planners uses it. The same seed gives the same examples: the number and order of random draws stay.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from random import Random
from typing import NamedTuple
from zlib import crc32

from kbbench_hf.knowledge_base.plans import Plan, write_walk
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.graph_ranker.query_words import stem
from kbbench_hf.retrieval.plan_generator import (
    ENTITY,
    MOST_SLOTS,
    MOST_WALKS,
    VALUE,
    SlottedQuery,
    number_of,
    prompt,
    spell_plan,
)

COMPOSED, FROM_ONE_HOP, N_COMPOSED = 0.7, 0.6, (0, 1, 1, 1, 2, 2)
"""The share of examples that are parts, composed so many times; the share of these that begins with one hop.

There are few compositions of two hops, and very many of more: without it, a pair of relations has an example or two."""
JOINED, IN_SENTENCES, MOST_TRIED = 0.4, 0.3, 20
"""The shares of compositions that are joined, and in two sentences; how many parts are tried until one fits."""
WITH_NOISE, MISSING = 0.3, 0.15
"""The share of the examples in which words are missing, and the share of these words."""
RELATIVE, ARTICLES, OPENINGS = ("that", "who", "whose", "which"), ("a", "an", "the"), ("consider", "take")
OF_THESE = ("any", "of", "these")
"""What refers to the first of two sentences: "consider the inns that ... . which dishes are served at any of these"."""
PLURAL = {"is": "are", "was": "were", "has": "have", "does": "do"}
SINGULAR = {plural: singular for singular, plural in PLURAL.items()}


class PlanExample(NamedTuple):
    """A question with slots, and its plan, whose entities, values and texts are slots too."""

    tokens: tuple[str, ...]
    types: dict[str, str]
    """Slot of an entity -> its types, as the prompt has them."""
    plan: Plan

    @classmethod
    def of(cls, query: SlottedQuery, plan: Plan, kb: KnowledgeBase) -> "PlanExample | None":
        """Return the example of a question; None where its plan needs what has no slot."""
        slots: dict[tuple[str | None, str], str] = {
            named: slot
            for slot, rows in reversed([*zip(ENTITY, query.entities, strict=False)])
            for named in zip(kb.names(rows), kb.types(rows), strict=True)
        }
        values: dict[object, str] = {}
        for slot, value in zip(VALUE, query.values, strict=False):
            for each in (value, value.casefold(), number_of(value)):
                values.setdefault(each, slot)
        texts = [text.casefold() for text in plan.text.split("; ") if text]
        wanted = [*((walk.topic, walk.start_type) for walk in plan.walks)]
        is_inner = any(hop.negated for walk in plan.walks for hop in walk.hops[:-1])
        known = {*texts, *(test.value for test in plan.attributes)} <= values.keys() and {*wanted} <= slots.keys()
        if not wanted or is_inner or not known:
            return None
        walks = tuple(replace(walk, topic=slots[named]) for walk, named in zip(plan.walks, wanted, strict=True))
        tests = tuple(replace(test, value=values[test.value]) for test in plan.attributes)
        slotted = Plan(plan.answer_type, walks, tests, "; ".join(values[text] for text in texts))
        return cls(tuple(query.text.split()), dict(zip(ENTITY, query.types(kb), strict=False)), slotted)

    @property
    def texts(self) -> tuple[str, str]:
        """What the model reads, and what it writes; slots are numbered in the order of the question."""
        order = sorted(self.types, key=self.tokens.index)
        one = self.rename_slots(dict(zip(order, ENTITY, strict=False)))
        walks = sorted(one.plan.walks, key=lambda each: (each.hops[-1].negated, each.topic, write_walk(each)))
        given = prompt(" ".join(one.tokens), [self.types[slot] for slot in order])
        return given, spell_plan(replace(one.plan, walks=tuple(walks)))

    def rename_slots(self, new: Mapping[str, str]) -> "PlanExample":
        """Return the example with other slots."""
        walks = tuple(replace(walk, topic=new[walk.topic or ""]) for walk in self.plan.walks)
        types = {new[slot]: each for slot, each in self.types.items()}
        return PlanExample(tuple(new.get(each, each) for each in self.tokens), types, replace(self.plan, walks=walks))

    @property
    def is_simple(self) -> bool:
        """Whether it has one slot and one walk, and nothing else."""
        return len(self.types) == len(self.plan.walks) == 1 and not self.has_rest

    @property
    def has_rest(self) -> bool:
        """Whether its plan has tests, a text or an exclusion."""
        plan = self.plan
        return bool(plan.attributes or plan.text or any(walk.hops[-1].negated for walk in plan.walks))

    @property
    def head(self) -> tuple[int, int]:
        """Where the answer type is mentioned, and where that ends; (0, 0) where not before the first slot."""
        start, stop = next(_type_spans(self.tokens, self.plan.answer_type), (0, 0))
        return (0, 0) if any(each.startswith("<") for each in self.tokens[:stop]) else (start, stop)


def join_examples(one: PlanExample, simple: PlanExample) -> PlanExample | None:
    """Return a question that asks for what two ask for; None where they ask for different types, or for the same."""
    is_same = simple.plan.walks[0].hops in [walk.hops for walk in one.plan.walks]
    (_, stop), (_, start) = one.head, simple.head
    if is_same or one.has_rest or not (stop and start) or one.plan.answer_type != simple.plan.answer_type:
        return None
    (slot,), free = simple.types, next(each for each in ENTITY if each not in one.types)
    other = simple.rename_slots({slot: free})
    start += other.tokens[start] in RELATIVE and one.tokens[stop] not in RELATIVE
    plan = replace(one.plan, walks=one.plan.walks + other.plan.walks)
    return PlanExample((*_without_mark(one.tokens), "and", *other.tokens[start:]), one.types | other.types, plan)


def chain_examples(one: PlanExample, number: int, simple: PlanExample, rng: Random) -> PlanExample | None:
    """Return a question in which what a simple one asks for takes the place of a walk's entity; None if it has none."""
    walk, (start, stop), (inner_slot,) = one.plan.walks[number], simple.head, simple.types
    slot, is_start = walk.topic or "", simple.plan.answer_type == walk.start_type
    if not stop or not is_start or [each.topic for each in one.plan.walks].count(slot) > 1:
        return None
    other = simple.rename_slots({inner_slot: slot})
    head, (inner,) = other.tokens[start:stop], other.plan.walks
    rest = _without_type(_without_mark(other.tokens[stop:]), slot, inner.start_type)
    if rest[1:2] == (slot,) and {rest[0]} & {*PLURAL, *SINGULAR}:
        # "which inns is <e1> served at?", but "an inn that <e1> is served at"
        rest = ("that", slot, rest[0], *rest[2:])
    elif rest[0] in SINGULAR or (rest[0] not in RELATIVE and rng.random() < 0.5):
        rest = ("that", *rest)
    tokens = _without_type(one.tokens, slot, walk.start_type)
    before, after = tokens[: tokens.index(slot)], tokens[tokens.index(slot) + 1 :]
    article = rng.choice(ARTICLES)
    if len(one.types) == 1 and rng.random() < IN_SENTENCES:
        before, after = _agree(before, len(before) - 1, PLURAL), _agree(after, 0, PLURAL)
        tokens = (rng.choice(OPENINGS), "the", *head, *rest, ".", *before, *OF_THESE, *head, *after)
    else:
        if article != "the":
            head, rest = _label_words(walk.start_type), _agree(rest, rest[0] in RELATIVE, SINGULAR)
            article = "an" if head[0][0] in "aeiou" else "a"
        tokens = (*before, article, *head, *rest, *after)
    walks = (*one.plan.walks[:number], replace(inner, hops=inner.hops + walk.hops), *one.plan.walks[number + 1 :])
    return PlanExample(tokens, one.types | other.types, replace(one.plan, walks=walks))


def _split_walks(one: PlanExample) -> Iterator[PlanExample]:
    """Yield the questions of both walks, where one "and" is between their slots and each has words of its own."""
    tokens, (_, head), walks = one.tokens, one.head, {walk.topic: walk for walk in one.plan.walks}
    first, second = sorted(map(tokens.index, one.types))
    places = [place for place in range(first, second) if tokens[place] == "and"]
    if not head or len(places) != 1 or len(walks) != 2 or "both" in tokens:
        return
    left, right = tokens[head : places[0]], tokens[places[0] + 1 :]
    if tokens[head] in RELATIVE and right[0] not in RELATIVE:
        right = (tokens[head], *right)
    parts = [(tokens[place], words) for place, words in ((first, left), (second, right))]
    if all({*words[: words.index(slot)]} - {*RELATIVE} for slot, words in parts):
        for slot, words in parts:
            yield PlanExample(
                (*tokens[:head], *words), {slot: one.types[slot]}, replace(one.plan, walks=(walks[slot],))
            )


def _split_chain(one: PlanExample, number: int) -> Iterator[PlanExample]:
    """Yield the question for the nodes after so many hops, and that which starts from them."""
    (walk,), (slot,), tokens, (_, head) = one.plan.walks, one.types, one.tokens, one.head
    between, place = walk.hops[number - 1].node_type, tokens.index(slot)
    these = next((n for n in range(place, len(tokens)) if tokens[n : n + 3] == OF_THESE), None)
    spans = [span for span in _type_spans(tokens, between) if span[0] == (these or -3) + 3 or head <= span[0] < place]
    if these is not None and "." in tokens[place:these] and spans and spans[-1][0] == these + 3:
        stop = tokens.index(".", place)
        inner, outer = tokens[2:stop], (*tokens[stop + 1 : these], slot, *tokens[spans[-1][1] :])
    elif these is None and head and len(spans) == 1 and tokens[spans[0][0] - 1] in ARTICLES:
        inner, outer = _without_mark(tokens[spans[0][0] :]), (*tokens[: spans[0][0] - 1], slot)
    else:
        return
    yield PlanExample(("which", *inner), one.types, Plan(between, (replace(walk, hops=walk.hops[:number]),)))
    after = replace(walk, start_type=between, hops=walk.hops[number:])
    yield PlanExample(outer, {slot: between}, replace(one.plan, walks=(after,)))


def split_examples(examples: Iterable[PlanExample]) -> list[PlanExample]:
    """Return examples, and those that they are made of, each once."""
    known = {each.texts: each for each in examples}
    queue = [*known.values()]
    while queue:
        one = queue.pop()
        two_walks = _split_walks(one) if len(one.types) == len(one.plan.walks) == 2 and not one.has_rest else ()
        chains = (_split_chain(one, n) for n in range(1, len(one.plan.walks[0].hops)) if one.is_simple)
        for part in chain(two_walks, *chains):
            if part.texts not in known:
                known[part.texts] = part
                queue.append(part)
    return [*known.values()]


def shuffle_plans(examples: Sequence[PlanExample], seed: int) -> list[PlanExample]:
    """Return the questions, each with the plan of another from its own slots: a control that trains as many.

    The other has slots of the same types, unless no other question has, so that the plan can be written.
    """
    order = Random(seed).sample(range(len(examples)), len(examples))
    order.sort(
        key=lambda n: ([*examples[n].types.values()], bool(examples[n].plan.attributes or examples[n].plan.text))
    )
    shuffled = [*examples]
    for own, other in zip(order, [*order[1:], *order[:1]], strict=True):
        one, slots = examples[own], [*examples[own].types]
        new = {slot: slots[n % len(slots)] for n, slot in enumerate(examples[other].types)}
        plan = examples[other].rename_slots(new).plan
        if not (one.plan.attributes or one.plan.text):
            plan = replace(plan, attributes=(), text="")
        shuffled[own] = one._replace(plan=plan)
    return shuffled


def augment_examples(examples: Sequence[PlanExample], epochs: int, seed: int, most_hops: int) -> Iterator[PlanExample]:
    """Yield the examples of all epochs, in the order of training."""
    rng, shapes = Random(seed), defaultdict[str, list[PlanExample]](list)
    simple: dict[str, dict[str, list[PlanExample]]] = defaultdict(dict)  # answer type -> shape -> examples
    for example in split_examples(examples):
        shape = plan_shape(example.plan)
        shapes[shape].append(example)  # rare shapes are composed as often as others
        if example.is_simple and len(example.plan.walks[0].hops) == 1:
            simple[example.plan.answer_type].setdefault(shape, []).append(example)
    one_hop = [shape for by_shape in simple.values() for shape in by_shape]
    for own in chain.from_iterable(rng.sample(examples, len(examples)) for _ in range(epochs)):
        example = own
        if rng.random() < COMPOSED:
            example = rng.choice(shapes[rng.choice(one_hop if rng.random() < FROM_ONE_HOP else [*shapes])])
            for _ in range(rng.choice(N_COMPOSED)):
                example = _compose(example, simple, most_hops, rng)
        if rng.random() < WITH_NOISE:
            tokens = (each for each in example.tokens if each.startswith("<") or rng.random() >= MISSING)
            example = example._replace(tokens=tuple(tokens))
        yield example


def _compose(
    one: PlanExample, simple: Mapping[str, Mapping[str, Sequence[PlanExample]]], most_hops: int, rng: Random
) -> PlanExample:
    """Return an example made of this one and a simple one; itself where no other fits."""
    number = rng.randrange(len(one.plan.walks))
    walk, made = one.plan.walks[number], None
    is_joined = rng.random() < JOINED and len(one.plan.walks) < MOST_WALKS and len(one.types) < MOST_SLOTS
    own = [*simple.get(one.plan.answer_type if is_joined else walk.start_type, {}).values()]
    for other in map(rng.choice, rng.sample(own, min(MOST_TRIED, len(own)))):
        if is_joined:
            made = join_examples(one, other)
        elif len(walk.hops) + len(other.plan.walks[0].hops) <= most_hops:
            made = chain_examples(one, number, other, rng)
        if made:
            return made
    return one


def plan_shape(plan: Plan) -> str:
    """Return the shape of a plan: its walks without names, tests and texts."""
    return " & ".join(sorted(str(Plan(plan.answer_type, (replace(walk, topic=""),))) for walk in plan.walks))


def parse_shape(plan: str) -> str:
    """Return the shape of a plan as a dataset has it; "" for none."""
    return plan_shape(Plan.parse(plan)) if plan else ""


def held_out_shapes(plans: Sequence[Plan], share: float, seed: int) -> set[str]:
    """Return shapes of several hops to keep out of training; each of their hops is in another shape that is left.

    >>> plans = [Plan.parse(f'"A":a -[r]-> b -[{r}]-> c') for r in "stu"] + [Plan.parse('"A":a -[r]-> b')]
    >>> held_out_shapes(plans, 1.0, 0)
    set()
    """
    hops = {plan_shape(plan): {hop for walk in plan.walks for hop in walk.hops} for plan in plans}
    several = sorted(plan_shape(plan) for plan in plans if sum(len(walk.hops) for walk in plan.walks) > 1)
    order = sorted(dict.fromkeys(several), key=lambda each: crc32(f"{seed}/{each}".encode()))
    held: set[str] = set()
    for each in order:
        left = set[object]().union(*(own for other, own in hops.items() if other != each and other not in held))
        if len(held) < round(share * len(order)) and hops[each] <= left:
            held.add(each)
    return held


def _type_spans(tokens: Sequence[str], node_type: str) -> Iterator[tuple[int, int]]:
    """Yield where a question mentions a type, in the singular or the plural: the place, and the one after it."""
    wanted = [*map(stem, _label_words(node_type))]
    stems = [stem(token.rstrip("?.,")) for token in tokens]
    for start in range(len(tokens) - len(wanted) + 1):
        if stems[start : start + len(wanted)] == wanted:
            yield start, start + len(wanted)


def _without_mark(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tokens without the mark at the end of the sentence."""
    return (*tokens[:-1], *filter(None, [tokens[-1].rstrip("?.")]))


def _label_words(node_type: str) -> tuple[str, ...]:
    return tuple(node_type.lower().replace("_", " ").split())


def _without_type(tokens: tuple[str, ...], slot: str, kind: str) -> tuple[str, ...]:
    """Return the tokens without the type before a slot: "the dish <e1>"."""
    place, label = tokens.index(slot), ("the", *_label_words(kind))
    return tokens[: place - len(label)] + tokens[place:] if tokens[:place][-len(label) :] == label else tokens


def _agree(tokens: tuple[str, ...], place: int, forms: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tokens with another form of the verb at a place."""
    return tuple(forms.get(token, token) if n == place else token for n, token in enumerate(tokens))
