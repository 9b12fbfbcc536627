"""Training of a planner: a causal language model on questions and plans with slots for entities (transformers).

`training.train` calls `train_planner`, and ranks the controls with `rank_oracles`. `plan:FOLDER` reads the folder that
it writes: prompts and plans are those of `retrieval.plan_generator`.
"""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
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
from transformers.utils.logging import disable_progress_bar

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.knowledge_base.plans import Plan
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import parse
from kbbench_hf.retrieval import plan_generator as grammar
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.embedders import unloadable
from kbbench_hf.retrieval.graph_ranker.ranker import build as build_graph
from kbbench_hf.retrieval.plan_generator import PlanGenerator, Rows, SlotFinder
from kbbench_hf.retrieval.plan_ranker import PlanRanker
from kbbench_hf.retrieval.planner import LEAST_SURE, PlanCandidate, Planner, PlanQuery
from kbbench_hf.retrieval.retrievers import retriever
from kbbench_hf.retrieval.trained_folder import PLAN
from kbbench_hf.runners.process_group import group
from kbbench_hf.runners.retrieval_run import default_cache
from kbbench_hf.training.encoders import CheckpointSeal, TrainingBar, common_arguments, last_checkpoint
from kbbench_hf.training.plan_examples import (
    PlanExample,
    augment_examples,
    held_out_shapes,
    parse_shape,
    plan_shape,
    shuffle_plans,
)
from kbbench_hf.training.questions import SplitQuestions, TrainingData, reciprocal_rank
from kbbench_hf.training.spec import UNPLANNED, TrainingLog, TrainSpec

TINY = "tiny"
"""The base that is a new model of random weights, with a tokenizer of its own."""
VOCABULARY, WIDTH, LAYERS, HEADS = 2000, 128, 4, 4
"""The sizes of the tiny model."""
LARGE = 50_000_000
"""Parameters from which on a base is trained by low-rank adapters, where peft is installed."""
Scores = NDArray[np.float64]
MOST_EVALUATED, MOST_RANKED = 400, 100
"""Validation questions whose plans are compared with the gold plans, and nodes of an oracle's ranking."""


def new_model(texts: Sequence[str]) -> tuple[Any, Any]:
    """Return a model of random weights, and a tokenizer that knows the words of these texts."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    own = Tokenizer(models.BPE(unk_token=grammar.PAD))
    own.normalizer, own.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=grammar.SPECIAL, show_progress=False)
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
    if (processes := group()).size > 1:
        raise UsageError(f"{processes.size} processes; expected one for --method plan. Leave torchrun out.")
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
    most_hops = max(len(walk.hops) for example in examples for walk in example.plan.walks)
    texts = [each.texts for each in augment_examples(examples, spec.epochs, spec.seed, most_hops)]
    set_seed(spec.seed)
    model, tokenizer = load_base(spec.base, [text for example in examples for text in example.texts])
    encode = grammar.encoder(tokenizer)
    rows = [(encode(given), encode(written)) for given, written in texts]
    last = last_checkpoint(checkpoints, processes)
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
    disable_progress_bar()  # of the one file that is written
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = {
        "format": grammar.FORMAT,
        "max_hops": most_hops,
        "held_out": sorted(held_out),
        "n_examples": len(examples),
    }
    write_text(folder / PLAN, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
    generator = PlanGenerator(model, tokenizer, data.kb, most_hops, finder)
    return bar.log(trainer.state, [])._replace(exact_match=exact_match(generator, data.validation, held_out))


def exact_match(generator: PlanGenerator, questions: SplitQuestions, held_out: Collection[str]) -> dict[str, float]:
    """Return the share of questions whose best plan is the gold plan: of all, of trained shapes, and of others.

    Questions without a gold plan do not count; a part without questions is left out.
    """
    pairs = [pair for pair in zip(questions.texts, questions.plans, strict=True) if pair[1]][:MOST_EVALUATED]
    candidates = generator.plans_of([generator.finder.find(text) for text, _ in pairs])
    right: dict[str, list[bool]] = defaultdict(list)
    for (_, gold), plans in zip(pairs, candidates, strict=True):
        is_right = bool(plans) and _canonical_parts(plans[0].plan) == _canonical_parts(Plan.parse(gold))
        right["all"].append(is_right)
        right["shape not in training" if parse_shape(gold) in held_out else "shape in training"].append(is_right)
    return {part: sum(each) / len(each) for part, each in right.items()}


class KnownPlans:
    """A planner whose plans are written in advance: a control."""

    def __init__(self, plans: Mapping[str, list[PlanCandidate]], least_sure: float = LEAST_SURE) -> None:
        self.plans_of, self.least_sure = plans, least_sure

    def plans(self, queries: Sequence[PlanQuery]) -> list[list[PlanCandidate]]:
        """Return the plans of each query."""
        return [self.plans_of.get(query.text, []) for query in queries]


def plans_of_others(generator: PlanGenerator, texts: Sequence[str]) -> dict[str, list[PlanCandidate]]:
    """Return the plans that a planner writes for another question, by question; their entities are the other's."""
    plans, half = generator.plans_of([generator.finder.find(text) for text in texts]), len(texts) // 2
    return dict(zip(texts, [*plans[half:], *plans[:half]], strict=True))  # far apart: neighbors may be alike


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
    """Return the MRR of each validation question: by gold plans, by plans for gold entities, by those of others."""
    questions = data.validation
    known = {text: Plan.parse(plan) for text, plan in zip(questions.texts, questions.plans, strict=True) if plan}
    plans = {text: known.get(text, Plan("")) for text in questions.texts}
    context = RetrieverContext(
        data.kb, default_cache(), candidates=data.candidates, forms=data.forms, build=retriever, model=UNPLANNED
    )
    generator = grammar.build(folder, data.kb)
    oracles: dict[str, Planner] = {
        "oracle plans": KnownPlans({text: [PlanCandidate(plan, 1.0)] for text, plan in known.items()}),
        "oracle entities": grammar.build(folder, data.kb, GoldSlots(data.kb, plans)),
        "plans of other questions": KnownPlans(plans_of_others(generator, questions.texts), generator.least_sure),
    }
    results = {}
    for name, planner in oracles.items():
        ranker = build_graph(parse(UNPLANNED), context, partial(PlanRanker, planner=planner))
        rankings = ranker.search(questions.texts, MOST_RANKED).ids
        pairs = zip(rankings, questions.answers, strict=True)
        results[name] = np.array([reciprocal_rank(np.isin(row, own)) for row, own in pairs])
    return results


def _canonical_parts(plan: Plan) -> tuple[object, ...]:
    """Return what two plans have in common that differ only in order and in the case of texts."""
    texts = sorted(plan.text.casefold().split("; "))
    return plan.answer_type, frozenset(plan.walks), frozenset(plan.attributes), texts


def _arguments(spec: TrainSpec, checkpoints: Path, n: int) -> TrainingArguments:
    return TrainingArguments(
        **common_arguments(spec, checkpoints),
        num_train_epochs=1,  # the examples of all epochs, in their order
        train_sampling_strategy="sequential",
        lr_scheduler_type="cosine",
        weight_decay=0.01,
        save_steps=math.ceil(n / (spec.batch * spec.accumulate * spec.evaluations)),
        logging_steps=10,
    )
