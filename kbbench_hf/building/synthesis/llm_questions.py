"""Questions written and judged by models: planned without one, then extracted, fused, rewritten and judged.

The plan (templates, topics, candidates, gold) depends on no answer, so that every step is one batch of prompts, each
answer journalled under what was asked: interrupted or not, in whatever order answers arrive, the dataset is the same.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.building.synthesis import judging
from kbbench_hf.building.synthesis.judging import JudgesAccount, Models
from kbbench_hf.building.synthesis.node_phrases import is_named
from kbbench_hf.building.synthesis.questions import (
    Built,
    Question,
    difficulties_of,
    make_questions,
    splits_of,
)
from kbbench_hf.building.synthesis.spec import Spec
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
    """A planned question on its way."""

    plan: Question
    names: list[str]
    """Of its topics, as the question must have them."""
    candidates: list[str]
    properties: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    dropped: str = ""


@dataclass(frozen=True)
class Written:
    """Questions by models, and the account of their making for the card."""

    built: Built
    lines: list[str]


def plan(kb: KnowledgeBase, spec: Spec, count: int, seed: str) -> Built:
    """Return the relational parts of enough questions that `count` of them should survive."""
    bounds = replace(spec, requirements=0, least_answers=1, most_answers=spec.most_candidates)
    return make_questions(kb, bounds, ceil(count / (1 - DROPPED)), seed)


def costs(planned: Built, models: Models, concurrency: int = 32, prices: Path | None = None) -> dict[str, CostEstimate]:
    """Return by model what it would be asked, at the length of the real records; the other texts are guessed."""
    kb, guess = planned.kb, ["a property of the record that is asked for"] * judging.MOST_PROPERTIES
    asked: dict[str, list[Prompt]] = {}
    for each in planned.questions:
        names, rows = kb.names(list(each.topics)), list(each.answers)
        gold = judging.extraction_prompt(kb.names([each.gold])[0], kb.texts([each.gold])[0])
        asked.setdefault(models.extract.model, []).append(gold)
        asked.setdefault(models.fuse.model, []).append(judging.fusion_prompt(each.text, guess, names))
        asked.setdefault(models.rewrite.model, []).append(judging.rewriting_prompt(each.text, names))
        for name, text in zip(kb.names(rows), kb.texts(rows), strict=True):
            for judge in models.judges:
                asked.setdefault(judge.model, []).append(judging.verdict_prompt(guess, name, text))
    return {
        model: estimate(
            [each.messages for each in prompts],
            [each.max_tokens for each in prompts],
            price=read_price(prices, model) if prices else None,
            concurrency=concurrency,
        )
        for model, prompts in asked.items()
    }


def write_questions(planned: Built, spec: Spec, models: Models, count: int, ask: Ask) -> Written:
    """Return at most `count` questions of a plan, in the order of attempts, as the models wrote and judged them.

    Raises:
        DataError: none survived; the message says at which steps they were lost and which judges tell nothing.
    """
    kb, seed = planned.kb, planned.account.seed
    drafts = [_Draft(each, kb.names(list(each.topics)), kb.names(list(each.answers))) for each in planned.questions]
    _extract(kb, drafts, ask)
    _word(
        drafts,
        "fuse",
        lambda d, wrong: judging.fusion_prompt(d.plan.text, [p for p, _ in d.properties], d.names, wrong),
        ask,
    )
    _word(drafts, "rewrite", lambda d, wrong: judging.rewriting_prompt(d.text, d.names, wrong), ask)
    account = JudgesAccount(tuple(f"{n}. {each.model}" for n, each in enumerate(models.judges, start=1)))
    kept = _judged(kb, drafts, spec, models, account, ask)[:count]
    lost = Counter(draft.dropped for draft in drafts if draft.dropped)
    if not kept:
        reasons = "; ".join(f"{reason} ({n:,})" for reason, n in lost.most_common())
        raise DataError(
            f"None of {len(drafts):,} planned questions survived: {reasons}. {' '.join(account.alarms())} "
            "Change the models in the spec, or its agreement to majority."
        )
    planned.account.n_wanted = count
    built = Built(kb, kept, splits_of(kept, spec, seed), difficulties_of(kb, kept), planned.account)
    return Written(built, _section(models, drafts, lost, account, count))


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
            open_[key].properties = judging.read_properties(reply or "", texts[key])
        open_ = {key: draft for key, draft in open_.items() if not draft.properties}
    for draft in open_.values():
        draft.dropped = "no property whose source stands in the gold node's text"


def _word(drafts: Sequence[_Draft], step: str, prompt: Callable[[_Draft, str], Prompt], ask: Ask) -> None:
    """Ask for each question, once more where a topic was lost or an answer named, and drop it where it still is."""
    open_ = {str(draft.plan.attempt): draft for draft in drafts if not draft.dropped}
    wrong = dict.fromkeys(open_, "")
    for place in (step, f"{step} again"):
        replies = ask(place, {key: prompt(draft, wrong[key]) for key, draft in open_.items()})
        for key, draft in list(open_.items()):
            reply = replies[key] or ""
            draft.outputs[place] = reply
            said = judging.read_question(reply)
            wrong[key] = _wrong(said, draft)
            if not wrong[key]:
                draft.text = said
                del open_[key]
    for key, draft in open_.items():
        draft.dropped = f"{step}: {wrong[key]}"


def _wrong(said: str, draft: _Draft) -> str:
    if not said:
        return "there was no question"
    if not is_filled(said, draft.names):
        return "a name was left out, or a slot left open"
    return "an answer was named" if any(is_named(name, said) for name in draft.candidates) else ""


def _judged(
    kb: KnowledgeBase, drafts: Sequence[_Draft], spec: Spec, models: Models, account: JudgesAccount, ask: Ask
) -> list[Question]:
    """Put every candidate of every question to every judge, and return the questions that have answers left."""
    written = [draft for draft in drafts if not draft.dropped]
    asked = [(draft, row) for draft in written for row in draft.plan.answers]

    def prompt(draft: _Draft, row: int) -> Prompt:
        wanted = [stated for stated, _ in draft.properties]
        return judging.verdict_prompt(wanted, kb.names([row])[0], kb.texts([row])[0])

    keys = {f"{draft.plan.attempt}/{kb.ids([row])[0]}": (draft, row) for draft, row in asked}
    prompts = Prompts({key: partial(prompt, *pair) for key, pair in keys.items()})
    replies = [ask(f"judge {n}", prompts) for n in range(1, len(models.judges) + 1)]
    votes = {key: [judging.read_vote(reply[key]) for reply in replies] for key in keys}
    account.votes += votes.values()
    kept: list[Question] = []
    met: set[object] = set()
    for draft in written:
        of_rows = {row: votes[f"{draft.plan.attempt}/{kb.ids([row])[0]}"] for row in draft.plan.answers}
        answers = tuple(row for row, each in of_rows.items() if judging.keeps(each, models.agreement))
        account.of_gold.append(of_rows[draft.plan.gold])
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
            kept.append(_question(kb, draft, answers, models, of_rows))
    return kept


def _question(
    kb: KnowledgeBase,
    draft: _Draft,
    answers: tuple[int, ...],
    models: Models,
    votes: Mapping[int, Sequence[bool | None]],
) -> Question:
    requirements = tuple({"kind": "free", "value": stated, "source": source} for stated, source in draft.properties)
    n_textual = sum(len(stated.split()) for stated, _ in draft.properties)
    made = {
        "mode": "llm",
        "models": {
            "extract": models.extract.model,
            "fuse": models.fuse.model,
            "rewrite": models.rewrite.model,
            "judges": [each.model for each in models.judges],
        },
        "agreement": models.agreement,
        "relational": draft.plan.text,
        "outputs": draft.outputs,
        "votes": {str(kb.ids([row])[0]): list(each) for row, each in votes.items()},
    }
    return replace(
        draft.plan,
        text=draft.text,
        requirements=requirements,
        answers=answers,
        n_textual=n_textual,
        made_by=made,
    )


def _section(
    models: Models, drafts: Sequence[_Draft], lost: Mapping[str, int], account: JudgesAccount, count: int
) -> list[str]:
    """Return the lines of the card that say what the models did."""
    kept = sum(not draft.dropped for draft in drafts)
    named = f"{models.extract.model} (properties), {models.fuse.model} (question), {models.rewrite.model} (rewriting)"
    again = sum("extract again" in draft.outputs for draft in drafts)
    lines = [
        "## How models made it",
        "",
        f"Written by {named}; {models.agreement} of {len(models.judges)} judges agree.",
    ]
    first = f", of which the first {count:,} are here" if kept > count else ""
    lines += [f"{kept:,} of {len(drafts):,} planned questions survived{first}."]
    lines += [f"{again:,} were asked twice for properties.", ""]
    if lost:
        lines += ["| lost | questions |", "|---|---|", *(f"| {why} | {n:,} |" for why, n in sorted(lost.items())), ""]
    return [*lines, *account.in_markdown(), ""]


def asked_of(models: Mapping[str, LanguageModel], folder: Path, *, sampling: Sampling | None = None, **how: Any) -> Ask:
    """Return how prompts are put to the models, by the first word of a step or `judge N`, journalled in `folder`.

    The function that is returned raises KBBenchError where a request failed for good: asked again, it goes on.
    """

    def ask(step: str, prompts: Mapping[str, Prompt]) -> Mapping[str, str | None]:
        if not prompts:
            return {}
        model = models[step if step.startswith("judge") else step.partition(" ")[0]]
        place = sha256(f"{step}/{name_of(model)}".encode()).hexdigest()[:12]
        run = generate(
            prompts, model, folder / f"{step.replace(' ', '-')}-{place}", sampling=sampling, title=step, **how
        )
        failed = [each for each in run.records() if each["error"] is not None and not each["settled"]]
        if failed:
            raise KBBenchError(
                f"{step}: {len(failed):,} of {len(prompts):,} requests failed, the first with {failed[0]['error']}; "
                "expected an answer to each. What was answered is kept: start the same command again."
            )
        return run.responses()

    return ask


def questions_by_models(
    spec: Spec, models: Models, count: int, seed: str, folder: Path, concurrency: int
) -> Callable[[KnowledgeBase], tuple[Built, list[str]]]:
    """Return what makes the questions of a knowledge base with the models of a spec, journalled in `folder`."""
    steps = {"extract": models.extract, "fuse": models.fuse, "rewrite": models.rewrite}
    steps |= {f"judge {n}": each for n, each in enumerate(models.judges, start=1)}
    asked = {
        step: language_model(each.model, {"base_url": each.base_url, "api_key_env": each.api_key_env or None})
        for step, each in steps.items()
    }
    ask = asked_of(asked, folder, concurrency=concurrency)

    def make(kb: KnowledgeBase) -> tuple[Built, list[str]]:
        written = write_questions(plan(kb, spec, count, seed), spec, models, count, ask)
        return written.built, written.lines

    return make
