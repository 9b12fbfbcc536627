"""Training of a planner: a causal language model on questions and plans with slots for entities (transformers).

Its questions are those of the training split whose plan can be written with their slots. Others are made of several of
them, so that the model sees combinations of relations that no question has: two that ask for the same type are joined
("which bridges cross <e1> and were built by <e2>"), or one takes the place of an entity of another ("which firms built
the bridges that cross <e1>"). In some, words are missing.
"""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.knowledge_base.plans import Plan
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import parse
from kbbench_hf.retrieval import plan_generator as grammar
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.embedders import unloadable
from kbbench_hf.retrieval.graph_ranker.query_words import stem
from kbbench_hf.retrieval.graph_ranker.ranker import build as build_graph
from kbbench_hf.retrieval.plan_generator import ENTITY, VALUE, PlanGenerator, Rows, SlotFinder, SlottedQuery
from kbbench_hf.retrieval.plan_ranker import PlanRanker
from kbbench_hf.retrieval.planner import PlanCandidate, Planner, PlanQuery
from kbbench_hf.retrieval.retrievers import retriever
from kbbench_hf.retrieval.trained_folder import PLAN
from kbbench_hf.runners.process_group import group
from kbbench_hf.runners.retrieval_run import default_cache
from kbbench_hf.training.encoders import CheckpointSeal, TrainingBar, last_checkpoint, remove_incomplete
from kbbench_hf.training.questions import SplitQuestions, TrainingData
from kbbench_hf.training.spec import UNPLANNED, TrainingLog, TrainSpec

TINY = "tiny"
"""The base that is a new model of random weights, with a tokenizer of its own."""
VOCABULARY, WIDTH, LAYERS, HEADS = 2000, 128, 4, 4
LARGE = 50_000_000
"""Parameters from which on a base is trained by low-rank adapters, where peft is installed."""
Scores = NDArray[np.float64]
MOST_EVALUATED, MOST_RANKED = 400, 100
"""Validation questions whose plans are compared with the gold plans, and nodes of an oracle's ranking."""
COMPOSED, JOINED, MOST_TRIED = (0, 0, 1, 1, 2), 0.4, 20
"""How often a question is composed with another one, the share of these in which they are joined, not chained, and how
many are tried."""
WITH_NOISE, MISSING = 0.3, 0.15
"""The share of the questions in which words are missing, and the share of these words."""
RELATIVE = ("that", "who", "whose", "which")


class PlanExample(NamedTuple):
    """A question with slots, and its plan in parts."""

    tokens: tuple[str, ...]
    types: tuple[str, ...]
    """The types of each slot, as the prompt has them."""
    answer_type: str
    walks: tuple[tuple[str, int, str, str], ...]
    """Of each walk: its sign, slot, start type and hops, as the grammar spells them."""
    tests: str = ""
    """Attribute tests and the remainder of text, as the grammar spells them."""

    @classmethod
    def of(cls, query: SlottedQuery, plan: Plan, kb: KnowledgeBase) -> "PlanExample | None":
        """Return the example of a question; None where its plan needs what has no slot."""
        names = [set(zip(kb.names(rows), kb.types(rows), strict=True)) for rows in query.entities]
        walks = []
        for walk in plan.walks:
            slot = next((n for n, each in enumerate(names) if (walk.topic, walk.start_type) in each), None)
            if slot is None or any(hop.negated for hop in walk.hops[:-1]):
                return None
            hops = (
                f"{grammar.DIRECTIONS[hop.direction]}{hop.relation}{grammar.TO}{hop.node_type}" for hop in walk.hops
            )
            sign = grammar.NOT if walk.hops[-1].negated else grammar.WALK
            walks.append((sign, slot, walk.start_type, "".join(hops)))
        values = [value.casefold() for value in query.values]
        tests = [
            f"{grammar.TEST}{test.field}{sign}{VALUE[n]}"
            for test in plan.attributes
            for n, value in enumerate(query.values)
            for sign, operator in grammar.OPERATORS.items()
            if operator == test.op and test.value in (value, grammar.number_of(value))
        ]
        texts = [text.casefold() for text in plan.text.split("; ") if text]
        if not walks or len(tests) < len(plan.attributes) or not set(texts) <= set(values):
            return None
        tests += [f"{grammar.TEXT}{VALUE[values.index(text)]}" for text in texts]
        return cls(tuple(query.text.split()), tuple(query.types(kb)), plan.answer_type, tuple(walks), "".join(tests))

    @property
    def texts(self) -> tuple[str, str]:
        """What the model reads, and what it writes; slots are numbered in the order of the question."""
        order = sorted(range(len(self.types)), key=lambda n: self.tokens.index(ENTITY[n]))
        new = {ENTITY[old]: ENTITY[n] for n, old in enumerate(order)}
        model_input = grammar.prompt(
            " ".join(new.get(each, each) for each in self.tokens), [self.types[n] for n in order]
        )
        walks = sorted((w[0] == grammar.NOT, order.index(w[1]), *w[2:], w[0]) for w in self.walks)
        spelled = "".join(f"{sign}{ENTITY[slot]}{start}{hops}" for _, slot, start, hops, sign in walks)
        return model_input, f"{self.answer_type}{spelled}{self.tests}{grammar.END}"

    def renumber_slots(self, start: int) -> "PlanExample":
        """Return the example with its slots numbered from `start` on."""
        new = {ENTITY[n]: ENTITY[n + start] for n in range(len(self.types))}
        walks = tuple((sign, slot + start, first, hops) for sign, slot, first, hops in self.walks)
        return self._replace(tokens=tuple(new.get(each, each) for each in self.tokens), walks=walks)

    @property
    def is_simple(self) -> bool:
        """Whether it has one slot and one walk, and nothing else."""
        return len(self.types) == len(self.walks) == 1 and not self.tests and self.walks[0][0] == grammar.WALK


def join_examples(one: PlanExample, simple: PlanExample) -> PlanExample | None:
    """Return a question that asks for what two ask for; None where they do not begin alike, up to the type."""
    pairs = zip(one.tokens, simple.tokens, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    is_same = simple.walks[0][2:] in [walk[2:] for walk in one.walks]
    starts = one.tokens[:shared]
    if is_same or one.tests or ENTITY[0] in starts or _type_place(starts, one.answer_type) is None:
        return None
    other = simple.renumber_slots(len(one.types))
    tokens = (*_without_mark(one.tokens), "and", *other.tokens[shared:])
    return one._replace(tokens=tokens, types=one.types + other.types, walks=one.walks + other.walks)


def chain_examples(one: PlanExample, number: int, simple: PlanExample, rng: Random) -> PlanExample | None:
    """Return a question in which what a simple one asks for takes the place of a walk's entity; None if it has none."""
    sign, slot, start, hops = one.walks[number]
    ((_, _, first, before),) = simple.walks
    place = _type_place(simple.tokens, start)
    if place is None or ENTITY[0] not in simple.tokens[place:] or [walk[1] for walk in one.walks].count(slot) > 1:
        return None
    words = len(start.split())
    head, rest = simple.tokens[place : place + words], _without_mark(simple.tokens[place + words :])
    that = ("that",) * (rest[:1] != () and rest[0] not in RELATIVE and rng.random() < 0.5)
    phrase = (ENTITY[slot] if each == ENTITY[0] else each for each in (rng.choice(["a", "the"]), *head, *that, *rest))
    entity = one.tokens.index(ENTITY[slot])
    walks = (*one.walks[:number], (sign, slot, first, before + hops), *one.walks[number + 1 :])
    types = (*one.types[:slot], *simple.types, *one.types[slot + 1 :])
    return one._replace(tokens=(*one.tokens[:entity], *phrase, *one.tokens[entity + 1 :]), types=types, walks=walks)


def shuffle_plans(examples: Sequence[PlanExample], seed: int) -> list[PlanExample]:
    """Return the questions, each with the plan of another from its own slots: a control that trains as many.

    The other has slots of the same types, unless no other question has, so that the plan can be written.
    """
    order = Random(seed).sample(range(len(examples)), len(examples))
    order.sort(key=lambda n: (examples[n].types, bool(examples[n].tests)))
    shuffled = [*examples]
    for own, other in zip(order, [*order[1:], *order[:1]], strict=True):
        one, taken = examples[own], examples[other]
        walks = tuple((sign, slot % len(one.types), start, hops) for sign, slot, start, hops in taken.walks)
        tests = taken.tests if one.tests else ""
        shuffled[own] = one._replace(answer_type=taken.answer_type, walks=walks, tests=tests)
    return shuffled


def _type_place(tokens: Sequence[str], node_type: str) -> int | None:
    """Return where a question names a type, in the singular or the plural."""
    wanted = [stem(word) for word in node_type.lower().replace("_", " ").split()]
    starts = range(len(tokens) - len(wanted) + 1)
    return next((n for n in starts if [*map(stem, tokens[n : n + len(wanted)])] == wanted), None)


def _without_mark(tokens: tuple[str, ...]) -> tuple[str, ...]:
    return (*tokens[:-1], *filter(None, [tokens[-1].rstrip("?.")]))


def augment_examples(examples: Sequence[PlanExample], epochs: int, seed: int, most_hops: int) -> Iterator[PlanExample]:
    """Yield the examples of all epochs, in the order of training."""
    rng = Random(seed)
    simple: dict[str, list[PlanExample]] = defaultdict(list)
    for example in examples:
        if example.is_simple:
            simple[example.answer_type].append(example)
    for _ in range(epochs):
        for example in rng.sample(examples, len(examples)):
            for _ in range(rng.choice(COMPOSED)):
                example = _compose(example, simple, most_hops, rng)
            if rng.random() < WITH_NOISE:
                tokens = (each for each in example.tokens if each.startswith("<") or rng.random() >= MISSING)
                example = example._replace(tokens=tuple(tokens))
            yield example


def _compose(one: PlanExample, simple: dict[str, list[PlanExample]], most_hops: int, rng: Random) -> PlanExample:
    """Return an example made of this one and a simple one; itself where no other fits."""
    number, made = rng.randrange(len(one.walks)), None
    _, _, start, hops = one.walks[number]
    if rng.random() < JOINED and len(one.walks) < grammar.MOST_WALKS and len(one.types) < grammar.MOST_SLOTS:
        tried = rng.sample(own, min(MOST_TRIED, len(own))) if (own := simple[one.answer_type]) else []
        made = next(filter(None, (join_examples(one, each) for each in tried)), None)
    elif simple[start] and hops.count(grammar.TO) < most_hops:
        other = rng.choice(simple[start])
        if (hops + other.walks[0][3]).count(grammar.TO) <= most_hops:
            made = chain_examples(one, number, other, rng)
    return made or one


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


def new_model(texts: Sequence[str]) -> tuple[Any, Any]:
    """Return a model of random weights, and a tokenizer that knows the words of these texts."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    own = Tokenizer(models.BPE(unk_token=grammar.PAD))
    own.normalizer, own.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    special = grammar.SPECIAL
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    own.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=own, eos_token=grammar.END, pad_token=grammar.PAD)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config), tokenizer


def load_base(base: str, texts: Sequence[str]) -> tuple[Any, Any]:
    """Return a base model with the signs of the grammar, and its tokenizer; a large one with adapters to train."""
    if base == TINY:
        return new_model(texts)
    try:
        tokenizer, model = AutoTokenizer.from_pretrained(base), AutoModelForCausalLM.from_pretrained(base)
    except (OSError, ValueError) as error:
        raise unloadable(base, error) from error
    signs = grammar.SPECIAL
    tokenizer.add_special_tokens({"eos_token": grammar.END, "pad_token": grammar.PAD})
    tokenizer.add_tokens(signs, special_tokens=True)
    model.resize_token_embeddings(len(tokenizer))
    if model.num_parameters() >= LARGE and find_spec("peft"):
        from peft import LoraConfig, get_peft_model

        new = tokenizer.convert_tokens_to_ids(signs)
        model = get_peft_model(model, LoraConfig(target_modules="all-linear", trainable_token_indices=new))
    return model, tokenizer


def train_planner(spec: TrainSpec, data: TrainingData, folder: Path, checkpoints: Path, *, show: bool) -> TrainingLog:
    """Train a planner, and save it in `folder`.

    Of the shapes of paths with several hops, the share `spec.held_out` is not trained, so that validation and test
    questions ask for combinations of relations that training lacks.

    Raises:
        UsageError: several processes.
        DataError: no training question has a plan that its slots can write.
    """
    if group().size > 1:
        raise UsageError(f"{group().size} processes; expected one for --method plan. Leave torchrun out.")
    finder = SlotFinder(data.kb)
    plans = [Plan.parse(plan) if plan else None for plan in data.train.plans]
    held_out = held_out_shapes([plan for plan in plans if plan], spec.held_out, spec.seed)
    pairs = zip(data.train.texts, plans, strict=True)
    possible = [
        PlanExample.of(finder.find(text), plan, data.kb)
        for text, plan in pairs
        if plan and plan_shape(plan) not in held_out
    ]
    examples = [example for example in possible if example]
    if not any(plans):
        raise DataError(
            f"No training question of {spec.benchmark} has a plan; expected a column `plan`. Make questions that have "
            "it: kbbench synthesize"
        )
    if not examples:
        raise DataError(
            f"No training question of {spec.benchmark} names what its plan starts from ({len(possible):,} plans); "
            "expected the names of nodes, as the knowledge base has them. Correct the column `plan`."
        )
    if spec.shuffle:
        examples = shuffle_plans(examples, spec.seed)
    most_hops = max(walk.count(grammar.TO) for example in examples for *_, walk in example.walks)
    texts = [each.texts for each in augment_examples(examples, spec.epochs, spec.seed, most_hops)]
    set_seed(spec.seed)
    model, tokenizer = load_base(spec.base, [text for example in examples for text in example.texts])
    encode = grammar.encoder(tokenizer)
    rows = [(encode(given), encode(written)) for given, written in texts]
    remove_incomplete(checkpoints)
    last = last_checkpoint(checkpoints)
    bar = TrainingBar(data.task.benchmark.dataset, show=show)
    trainer = Trainer(
        model,
        _arguments(spec, checkpoints, len(rows)),
        data_collator=DataCollatorForSeq2Seq(tokenizer),
        train_dataset=[
            {"input_ids": [*given, *written], "labels": [-100] * len(given) + [*written]} for given, written in rows
        ],
        callbacks=[bar, CheckpointSeal()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    model = model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = {"max_hops": most_hops, "held_out": sorted(held_out), "n_examples": len(examples)}
    write_text(folder / PLAN, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
    generator = PlanGenerator(model, tokenizer, data.kb, most_hops, finder)
    return bar.log(trainer.state, [])._replace(exact_match=exact_match(generator, data.validation, held_out))


def exact_match(generator: PlanGenerator, questions: SplitQuestions, held_out: Collection[str]) -> dict[str, float]:
    """Return the share of questions whose best plan is the gold plan: of all, of trained shapes, and of others."""
    pairs = [pair for pair in zip(questions.texts, questions.plans, strict=True) if pair[1]][:MOST_EVALUATED]
    candidates = generator.plans_of([generator.finder.find(text) for text, _ in pairs])
    right: dict[str, list[bool]] = defaultdict(list)
    for (_, gold), plans in zip(pairs, candidates, strict=True):
        is_right = bool(plans) and _canonical(plans[0].plan) == _canonical(Plan.parse(gold))
        right["all"].append(is_right)
        right["shape not in training" if parse_shape(gold) in held_out else "shape in training"].append(is_right)
    return {part: sum(each) / len(each) for part, each in right.items()}


class GoldPlans:
    """A planner that knows the plan of each question: a control."""

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        self.plan_of = plans

    def plans(self, queries: Sequence[PlanQuery]) -> list[list[PlanCandidate]]:
        """Return the plan of each query."""
        plans = (self.plan_of.get(query.text) for query in queries)
        return [[PlanCandidate(plan, 1.0)] if plan else [] for plan in plans]


class GoldSlots(SlotFinder):
    """A finder of slots that keeps the entities of the plan of each question, and no others: a control."""

    def __init__(self, kb: KnowledgeBase, plans: Mapping[str, Plan]) -> None:
        super().__init__(kb)
        self.plan_of = plans

    def mentions(self, query: str) -> list[tuple[int, int, Rows]]:
        """Return the mentions that the plan starts from."""
        wanted = {(walk.topic, walk.start_type) for walk in self.plan_of[query].walks}
        gold_mentions = []
        for start, stop, rows in super().mentions(query):
            names = zip(self.kb.names(rows), self.kb.types(rows), strict=True)
            if any(own := [each in wanted for each in names]):
                gold_mentions.append((start, stop, rows[np.array(own)]))
        return gold_mentions


def rank_oracles(folder: Path, data: TrainingData) -> dict[str, Scores]:
    """Return the MRR of each validation question, of rankings by gold plans and by plans for gold entities."""
    questions = data.validation
    known = {text: Plan.parse(plan) for text, plan in zip(questions.texts, questions.plans, strict=True) if plan}
    plans = {text: known.get(text, Plan("")) for text in questions.texts}
    context = RetrieverContext(
        data.kb, default_cache(), candidates=data.candidates, forms=data.forms, build=retriever, model=UNPLANNED
    )
    oracles: dict[str, Planner] = {
        "oracle plans": GoldPlans(known),
        "oracle entities": grammar.build(folder, data.kb, GoldSlots(data.kb, plans)),
    }
    results = {}
    for name, planner in oracles.items():
        ranker = build_graph(parse(UNPLANNED), context, partial(PlanRanker, planner=planner))
        rankings = ranker.search(questions.texts, MOST_RANKED).ids
        places = [np.flatnonzero(np.isin(row, own)) for row, own in zip(rankings, questions.answers, strict=True)]
        results[name] = np.array([1 / (1 + each[0]) if len(each) else 0.0 for each in places])
    return results


def _canonical(plan: Plan) -> tuple[object, ...]:
    texts = sorted(plan.text.casefold().split("; "))
    return plan.answer_type, frozenset(plan.walks), frozenset(plan.attributes), texts


def _arguments(spec: TrainSpec, checkpoints: Path, n: int) -> TrainingArguments:
    return TrainingArguments(
        str(checkpoints),
        num_train_epochs=1,  # the examples of all epochs, in their order
        train_sampling_strategy="sequential",
        per_device_train_batch_size=spec.batch,
        gradient_accumulation_steps=spec.accumulate,
        learning_rate=spec.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=spec.warmup,
        weight_decay=0.01,
        seed=spec.seed,
        data_seed=spec.seed,
        bf16=spec.precision == "bf16",
        use_cpu=not torch.cuda.is_available(),
        save_steps=math.ceil(n / (spec.batch * spec.accumulate * spec.evaluations)),
        save_total_limit=2,
        logging_steps=10,
        report_to=[],
        disable_tqdm=True,
    )
