"""Question synthesis with language models: planned without one, then extracted, fused, rewritten and judged.

The plan (templates, topics, candidates, gold) depends on no response, so that every step is one batch of prompts. Each
response is journaled: the dataset is the same after an interruption and in any order of responses.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.building.synthesis import judging
from kbbench_hf.building.synthesis.judging import JudgeVotes, Models
from kbbench_hf.building.synthesis.questions import (
    QuestionSet,
    SyntheticQuestion,
    difficulties_of,
    make_questions,
    splits_of,
)
from kbbench_hf.building.synthesis.requirements import is_named
from kbbench_hf.building.synthesis.spec import SynthesisSpec
from kbbench_hf.building.synthesis.wording import is_filled
from kbbench_hf.errors import DataError, KBBenchError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.protocols import LanguageModel, name_of
from kbbench_hf.runners.cost import CostEstimate, estimate, read_price
from kbbench_hf.runners.generate import generate
from kbbench_hf.runners.jobs import Prompts, Sampling
from kbbench_hf.runners.run_options import language_model

DROPPED = 0.3
"""The share of planned questions that is expected not to survive."""

Ask = Callable[[str, Mapping[str, Prompt]], Mapping[str, str | None]]
"""(step, prompts by key) -> replies; None where the model was reached and refused."""


@dataclass
class _Draft:
    """A planned question with the outputs of the steps so far."""

    plan: SyntheticQuestion
    names: list[str]
    """The names of its topics, which the question must have."""
    candidates: list[str]
    """The names of all nodes that the relational part gives, which the question must not have."""
    properties: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    dropped: str = ""


def plan(kb: KnowledgeBase, spec: SynthesisSpec, count: int, seed: str) -> QuestionSet:
    """Return the relational parts of as many questions as should leave `count` after all steps."""
    bounds = replace(spec, requirements=0, least_answers=1, most_answers=spec.most_candidates)
    return make_questions(kb, bounds, ceil(count / (1 - DROPPED)), seed)


def costs(
    planned: QuestionSet, models: Models, concurrency: int = 32, prices: Path | None = None
) -> dict[str, CostEstimate]:
    """Return the estimated cost by model: with the real records, and a guess for the texts of other models."""
    kb, guess = planned.kb, ["a property of the record that is asked for"] * judging.MOST_PROPERTIES
    by_model: dict[str, list[Prompt]] = defaultdict(list)
    for each in planned.questions:
        names, rows = kb.names(list(each.topics)), list(each.answers)
        gold = judging.extraction_prompt(kb.names([each.gold])[0], kb.texts([each.gold])[0])
        by_model[models.extract.model].append(gold)
        by_model[models.fuse.model].append(judging.fusion_prompt(each.text, guess, names))
        by_model[models.rewrite.model].append(judging.rewriting_prompt(each.text, names))
        for name, text in zip(kb.names(rows), kb.texts(rows), strict=True):
            for judge in models.judges:
                by_model[judge.model].append(judging.verdict_prompt(guess, name, text))
    return {
        model: estimate(
            [each.messages for each in prompts],
            [models.max_tokens or each.max_tokens for each in prompts],
            price=read_price(prices, model) if prices else None,
            concurrency=concurrency,
        )
        for model, prompts in by_model.items()
    }


def write_questions(
    planned: QuestionSet, spec: SynthesisSpec, models: Models, count: int, ask: Ask
) -> tuple[QuestionSet, list[str]]:
    """Return at most `count` questions of a plan, written and judged by models, and the card's section on them.

    Raises:
        DataError: none is left; the message has the step at which each was lost, and the faults of judges.
    """
    kb, seed = planned.kb, planned.account.seed
    drafts = [_Draft(each, kb.names(list(each.topics)), kb.names(list(each.answers))) for each in planned.questions]
    _extract(kb, drafts, ask)

    def fusion_prompt(draft: _Draft, wrong: str) -> Prompt:
        return judging.fusion_prompt(draft.plan.text, [each for each, _ in draft.properties], draft.names, wrong)

    _word(drafts, "fuse", fusion_prompt, ask)
    _word(drafts, "rewrite", lambda draft, wrong: judging.rewriting_prompt(draft.text, draft.names, wrong), ask)
    votes = JudgeVotes(tuple(f"{n}. {each.model}" for n, each in enumerate(models.judges, start=1)))
    judged = _judge(kb, drafts, spec, models, votes, ask)[:count]
    lost = Counter(draft.dropped for draft in drafts if draft.dropped)
    if not judged:
        reasons = "; ".join(f"{reason} ({n:,})" for reason, n in lost.most_common())
        raise DataError(
            f"None of {len(drafts):,} planned questions survived: {reasons}. {' '.join(votes.alarms())} "
            "Change the models in the spec, or its agreement to majority."
        )
    planned.account.n_wanted = count
    questions = QuestionSet(kb, judged, splits_of(judged, spec, seed), difficulties_of(kb, judged), planned.account)
    return questions, _card_section(models, drafts, lost, votes, count)


def _extract(kb: KnowledgeBase, drafts: Sequence[_Draft], ask: Ask) -> None:
    open_ = {str(draft.plan.attempt): draft for draft in drafts}
    for step in ("extract", "extract again"):
        texts = {key: kb.texts([draft.plan.gold])[0] for key, draft in open_.items()}
        for key in [key for key, text in texts.items() if not text.strip()]:
            open_.pop(key).dropped = "the gold node has no text"
        prompts = {
            key: judging.extraction_prompt(kb.names([draft.plan.gold])[0], texts[key]) for key, draft in open_.items()
        }
        for key, reply in ask(step, prompts).items():
            open_[key].outputs[step] = reply or ""
            open_[key].properties = judging.parse_properties(reply or "", texts[key])
        open_ = {key: draft for key, draft in open_.items() if not draft.properties}
    for draft in open_.values():
        draft.dropped = "no property whose source stands in the gold node's text"


def _word(drafts: Sequence[_Draft], step: str, prompt: Callable[[_Draft, str], Prompt], ask: Ask) -> None:
    """Get each question from a model, a second time where it loses a topic or names an answer; then drop it."""
    open_ = {str(draft.plan.attempt): draft for draft in drafts if not draft.dropped}
    wrong = dict.fromkeys(open_, "")
    for place in (step, f"{step} again"):
        replies = ask(place, {key: prompt(draft, wrong[key]) for key, draft in open_.items()})
        for key, draft in list(open_.items()):
            draft.outputs[place] = replies[key] or ""
            question = judging.parse_question(draft.outputs[place])
            wrong[key] = _fault(question, draft)
            if not wrong[key]:
                draft.text = question
                del open_[key]
    for key, draft in open_.items():
        draft.dropped = f"{step}: {wrong[key]}"


def _fault(question: str, draft: _Draft) -> str:
    if not question:
        return "there was no question"
    if not is_filled(question, draft.names):
        return "a name was left out, or a slot left open"
    return "an answer was named" if any(is_named(name, question) for name in draft.candidates) else ""


def _judge(
    kb: KnowledgeBase, drafts: Sequence[_Draft], spec: SynthesisSpec, models: Models, all_votes: JudgeVotes, ask: Ask
) -> list[SyntheticQuestion]:
    """Get every judge's vote on every candidate of every question, and return the questions with answers left."""
    written = [draft for draft in drafts if not draft.dropped]

    def prompt(draft: _Draft, row: int) -> Prompt:
        wanted = [stated for stated, _ in draft.properties]
        return judging.verdict_prompt(wanted, kb.names([row])[0], kb.texts([row])[0])

    def key_of(draft: _Draft, row: int) -> str:
        return f"{draft.plan.attempt}/{kb.ids([row])[0]}"

    keys = {key_of(draft, row): (draft, row) for draft in written for row in draft.plan.answers}
    prompts = Prompts({key: partial(prompt, *pair) for key, pair in keys.items()})
    replies = [ask(f"judge {n}", prompts) for n in range(1, len(models.judges) + 1)]
    votes = {key: [judging.parse_vote(reply[key]) for reply in replies] for key in keys}
    all_votes.votes += votes.values()
    judged: list[SyntheticQuestion] = []
    met: set[object] = set()
    for draft in written:
        of_rows = {row: votes[key_of(draft, row)] for row in draft.plan.answers}
        answers = tuple(row for row, each in of_rows.items() if judging.keeps(each, models.agreement))
        all_votes.of_gold.append(of_rows[draft.plan.gold])
        twice = (frozenset(draft.plan.topics), answers)
        text = " ".join(draft.text.casefold().split())
        if draft.plan.gold not in answers:
            draft.dropped = "the judges refused the gold node"
        elif not spec.least_answers <= len(answers) <= spec.most_answers:
            draft.dropped = "too many answers" if len(answers) > spec.most_answers else "too few answers"
        elif twice in met or text in met:
            draft.dropped = "asked already"
        else:
            met |= {twice, text}
            judged.append(_finished_question(kb, draft, answers, models, of_rows))
    return judged


def _finished_question(
    kb: KnowledgeBase,
    draft: _Draft,
    answers: tuple[int, ...],
    models: Models,
    votes: Mapping[int, Sequence[bool | None]],
) -> SyntheticQuestion:
    requirements = tuple({"kind": "free", "value": stated, "source": source} for stated, source in draft.properties)
    n_textual = sum(len(stated.split()) for stated, _ in draft.properties)
    writers = {step: getattr(models, step).model for step in ("extract", "fuse", "rewrite")}
    provenance = {
        "mode": "llm",
        "models": writers | {"judges": [each.model for each in models.judges]},
        "agreement": models.agreement,
        "relational": draft.plan.text,
        "outputs": draft.outputs,
        "votes": {str(kb.ids([row])[0]): list(each) for row, each in votes.items()},
    }
    changed: dict[str, Any] = {"requirements": requirements, "answers": answers, "n_textual": n_textual}
    return replace(draft.plan, text=draft.text, made_by=provenance, **changed)


def _card_section(
    models: Models, drafts: Sequence[_Draft], lost: Mapping[str, int], votes: JudgeVotes, count: int
) -> list[str]:
    """Return the card's section on the models."""
    n_left = sum(not draft.dropped for draft in drafts)
    named = f"{models.extract.model} (properties), {models.fuse.model} (question), {models.rewrite.model} (rewriting)"
    again = sum("extract again" in draft.outputs for draft in drafts)
    first = f", of which the first {count:,} are here" if n_left > count else ""
    lines = ["## How models made it", ""]
    lines.append(f"Written by {named}; {models.agreement} of {len(models.judges)} judges agree.")
    lines.append(f"{n_left:,} of {len(drafts):,} planned questions survived{first}.")
    lines += [f"{again:,} were asked twice for properties.", ""]
    if lost:
        lines += ["| lost | questions |", "|---|---|", *(f"| {why} | {n:,} |" for why, n in sorted(lost.items())), ""]
    return [*lines, *votes.in_markdown(), ""]


def _request_function(models: Mapping[str, LanguageModel], folder: Path, **options: Any) -> Ask:
    """Return the function that sends a step's prompts to its model, journaled in `folder`.

    `models` has a key for each step: its first word, or `judge N`. The function raises KBBenchError where a request
    failed for good; called again, it resumes.
    """

    def ask(step: str, prompts: Mapping[str, Prompt]) -> Mapping[str, str | None]:
        if not prompts:
            return {}
        model = models[step if step.startswith("judge") else step.partition(" ")[0]]
        place = sha256(f"{step}/{name_of(model)}".encode()).hexdigest()[:12]
        run = generate(prompts, model, folder / f"{step.replace(' ', '-')}-{place}", title=step, **options)
        failed = [each for each in run.records() if each["error"] is not None and not each["settled"]]
        if failed:
            raise KBBenchError(
                f"{step}: {len(failed):,} of {len(prompts):,} requests failed, the first with {failed[0]['error']}; "
                "expected an answer to each. What was answered is kept: start the same command again."
            )
        return run.responses()

    return ask


def questions_by_models(
    spec: SynthesisSpec, models: Models, count: int, seed: str, folder: Path, concurrency: int
) -> Callable[[KnowledgeBase], tuple[QuestionSet, list[str]]]:
    """Return the function that makes questions of a knowledge base with a spec's models, journaled in `folder`."""
    steps = {"extract": models.extract, "fuse": models.fuse, "rewrite": models.rewrite}
    steps |= {f"judge {n}": each for n, each in enumerate(models.judges, start=1)}
    loaded = {
        step: language_model(each.model, {"base_url": each.base_url, "api_key_env": each.api_key_env or None})
        for step, each in steps.items()
    }
    sampling = Sampling(max_tokens=models.max_tokens)
    ask = _request_function(loaded, folder, concurrency=concurrency, structured=models.structured, sampling=sampling)
    return lambda kb: write_questions(plan(kb, spec, count, seed), spec, models, count, ask)
