"""Question synthesis without a model: questions for a knowledge base by a spec, and statistics of the attempts.

`synthesize` writes the questions as a dataset, `llm_questions` takes them as a plan. The card of the dataset lists the
reasons of rejected attempts.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from zlib import crc32

from kbbench_hf.building.own_extraction.splits import connected_groups
from kbbench_hf.building.retrieval_audit import ranks_by_words
from kbbench_hf.building.synthesis.english import name_words
from kbbench_hf.building.synthesis.instances import EntityNames, TopicDraws, Usage
from kbbench_hf.building.synthesis.requirements import NodeTexts, Requirement, Requirements, is_named
from kbbench_hf.building.synthesis.schema import read_schema
from kbbench_hf.building.synthesis.spec import SynthesisSpec
from kbbench_hf.building.synthesis.templates import TemplateYield, left_out, sayable, templates_of, words_of
from kbbench_hf.building.synthesis.wording import Choice, Wording, is_filled
from kbbench_hf.errors import DataError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.metrics.generative_re import STOP_WORDS
from kbbench_hf.text.words import list_words

TRIES_WITHOUT_RESULT = 200
"""After so many rejections in a row a template is exhausted."""
ALIKE = 0.9
"""Least share of common words of two questions of a template that are worded alike."""
LONG = 3
"""Hops of a walk about whose end nothing more is said."""
MOST_WORDS = 28
"""The longest question, its topics aside."""
MOST_GOLD = 6
"""Candidates that are tried as the node that gives requirements."""

EASY, MEDIUM = 5, 100
"""Highest ranks, by words alone, of easy and of medium questions."""


class RejectedAttempt(Exception):
    """An attempt that gave no question; the message has the reason."""


@dataclass(frozen=True)
class SyntheticQuestion:
    """One question with its template, topics, requirements and answers; nodes are row numbers."""

    attempt: int
    """The number of the attempt that gave it, from 0; unique."""
    text: str
    template: TemplateYield
    topics: tuple[int, ...]
    """In the order of the template's topics."""
    requirements: tuple[Requirement, ...]
    gold: int
    """The answer that the requirements were taken from."""
    n_candidates: int
    """Answers of the template without requirements."""
    answers: tuple[int, ...]
    """Ascending."""
    n_relational: int
    n_textual: int
    """Words about relations, and about requirements."""
    made_by: Mapping[str, Any] | None = None
    """The models that wrote and judged it, their outputs and votes; None without models."""

    @property
    def hops(self) -> int:
        """The number of edges that its template names."""
        return sum(len(walk.hops) for walk in self.template.template.path.walks)


@dataclass
class AttemptStatistics:
    """Counts of attempts and rejections, and the templates that were used or left out."""

    seed: str
    n_attempts: int = 0
    n_wanted: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    """Reason of a rejection -> attempts."""
    templates: list[TemplateYield] = field(default_factory=list)
    exhausted: list[str] = field(default_factory=list)
    """Templates that ran out of instances; others have their share."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Templates of the spec that give no question -> the reason."""
    unnameable: list[str] = field(default_factory=list)
    """Node types whose nodes have no names."""
    unwritable: list[str] = field(default_factory=list)
    """Steps that no metapath can name."""
    alike: list[str] = field(default_factory=list)
    """Relations that would be worded like others."""
    inverses: Sequence[str] = ()
    """Relations whose edges are those of another one, reversed."""


@dataclass(frozen=True)
class QuestionSet:
    """The questions of a knowledge base, in the order of their attempts, and the statistics of these."""

    kb: KnowledgeBase
    questions: list[SyntheticQuestion]
    splits: list[str]
    """Of each question."""
    difficulties: list[str]
    """Of each question, as `difficulties_of` has it."""
    account: AttemptStatistics


def make_questions(
    kb: KnowledgeBase,
    spec: SynthesisSpec,
    count: int,
    seed: str = "0",
    advance: Callable[[], object] = lambda: None,
) -> QuestionSet:
    """Make up to `count` questions; fewer where the templates run out of instances.

    The same knowledge base, spec and seed give the same questions. Every attempt has random numbers of its own. The
    templates take turns; `advance` is called after each new question.

    Raises:
        DataError: no template, or no question, could be made.
    """
    account = AttemptStatistics(seed, n_wanted=count)
    schema = read_schema(kb)
    wording = Wording(spec.words, schema)
    schema, account.alike = sayable(schema, wording)
    account.unwritable, account.inverses = list(schema.unwritable), schema.inverses
    account.unnameable = [kind for kind in kb.graph.node_types if kind not in schema.nameable]
    draws = TopicDraws(kb)
    account.templates = templates_of(kb, schema, spec, draws, seed, wording)
    account.left_out = left_out(kb, spec, account.templates)
    maker = _QuestionMaker(kb, spec, count, seed, draws, wording)
    active = list(account.templates)
    fruitless: Counter[str] = Counter()
    place, may_repeat = 0, False
    while active and len(maker.made) < count:
        template = active[place % len(active)]
        path = template.template.metapath
        try:
            is_choosy = fruitless[path] < TRIES_WITHOUT_RESULT / 2
            maker.attempt(account.n_attempts, template, is_choosy=is_choosy, may_repeat=may_repeat)
            fruitless[path] = 0
            advance()
        except RejectedAttempt as rejected:
            account.refusals[str(rejected)] += 1
            fruitless[path] += 1
        account.n_attempts += 1
        if fruitless[path] >= TRIES_WITHOUT_RESULT:
            active.remove(template)
            account.exhausted.append(path)
        else:
            place += 1
        if not active and not may_repeat:  # no further set of answers is left
            active, may_repeat, account.exhausted = list(account.templates), True, []
            fruitless.clear()
    if not maker.made:
        reasons = ", ".join(f"{reason} ({n:,})" for reason, n in account.refusals.most_common())
        raise DataError(
            f"None of {account.n_attempts:,} attempts gave a question: {reasons}. Widen the bounds in the spec, or "
            "list other templates there."
        )
    return QuestionSet(kb, maker.made, splits_of(maker.made, spec, seed), difficulties_of(kb, maker.made), account)


def difficulties_of(kb: KnowledgeBase, questions: Sequence[SyntheticQuestion]) -> list[str]:
    """Return the difficulty of each question, by the BM25 rank of its best answer among all nodes.

    `easy`: among the first 5 nodes; `medium`: among the first 100; else `hard`.
    """
    words = [set(list_words(each.text)) - STOP_WORDS for each in questions]
    ranks = ranks_by_words(kb, words, [each.answers for each in questions])
    return ["easy" if rank <= EASY else "medium" if rank <= MEDIUM else "hard" for rank in ranks]


def splits_of(questions: Sequence[SyntheticQuestion], spec: SynthesisSpec, seed: str) -> list[str]:
    """Return the split of each question: none has its answer set or topic set in two; with `strict`, no answer."""
    keys = [
        [("answers", each.answers), ("topics", frozenset(each.topics))]
        + ([("answer", row) for row in each.answers] if spec.strict else [])
        for each in questions
    ]
    return shared_out(keys, spec.splits, seed, spec.strict)


class _QuestionMaker:
    """Attempts at questions, one after the other, without repetitions."""

    def __init__(
        self,
        kb: KnowledgeBase,
        spec: SynthesisSpec,
        count: int,
        seed: str,
        draws: TopicDraws,
        wording: Wording,
    ) -> None:
        self.made: list[SyntheticQuestion] = []
        self._kb, self._spec, self._seed, self._draws = kb, spec, seed, draws
        self._names, self._usage, self._wording = EntityNames(kb), Usage(kb, count), wording
        self._requirements = Requirements(kb, NodeTexts(kb))
        self._used: set[tuple[Any, ...]] = set()
        self._texts: dict[str, list[frozenset[str]]] = defaultdict(list)

    def attempt(self, number: int, template: TemplateYield, *, is_choosy: bool = True, may_repeat: bool = True) -> None:
        """Make one question of a template; a choosy attempt wants candidates enough for the answers that it drew.

        The answers are those of no other question, unless they may repeat.

        Raises:
            RejectedAttempt: there is no such question, or it is not allowed.
        """
        path, rng = template.template.path, Random(f"{self._seed}/{number}")
        drawn = self._draws.draw(path, rng)
        if drawn is None:
            raise RejectedAttempt("no candidate")
        topics, candidates, excluded = drawn
        if reason := self._names.refusal(topics) or self._usage.refusal_of_topics(path, topics):
            raise RejectedAttempt(reason)
        once = (path.text, frozenset(topics) if _is_unordered(template) else tuple(topics))
        if once in self._used:
            raise RejectedAttempt("asked already")
        if not candidates:
            raise RejectedAttempt("no candidate")
        if len(candidates) > self._spec.most_candidates:
            raise RejectedAttempt("too many candidates")
        n_wanted = rng.randint(0, self._spec.requirements)
        n_wanted *= all(len(walk.hops) < LONG for walk in path.walks)
        size = self._size(rng)
        if is_choosy and len(candidates) < max(size, min(2**n_wanted * size, template.median_answers)):
            raise RejectedAttempt("fewer candidates than the number of answers that was drawn")
        names_and_types = (*self._kb.names(topics), *words_of(path))
        named = {word for name in names_and_types for word in list_words(name_words(name))}
        gold, requirements, answers = self._narrow(candidates, n_wanted, size, rng, named)
        if reason := self._usage.refusal_of_answers(answers):
            raise RejectedAttempt(reason)
        if not may_repeat and ("answers", tuple(answers)) in self._used:
            raise RejectedAttempt("another question has these answers")
        same = (frozenset(topics), tuple(answers))
        if same in self._used:
            raise RejectedAttempt("the same topics and answers by another template")
        names = {
            label: self._names.unambiguous(row, self._wording.type(kind))
            for label, row, kind in zip(path.topics, topics, self._kb.types(topics), strict=True)
        }
        spelled = [self._requirements.verbatim(gold, each) for each in requirements]
        choice, reached = Choice(self._seed, len(self.made)), self._draws.reached(path, topics)
        besides = [names[label] for label, row in zip(path.topics, topics, strict=True) if row in excluded]
        text, n_relational, n_textual = self._wording.ask(template.template, names, spelled, choice, reached, besides)
        if not is_filled(text, [*names.values()]):
            raise RejectedAttempt("the sentence is not whole")
        if any(is_named(name, text) for name in self._kb.names(answers)):
            raise RejectedAttempt("an answer is named in the question")
        if len(text.split()) - sum(len(name.split()) for name in names.values()) > MOST_WORDS:
            raise RejectedAttempt("the question is too long")
        its_words = frozenset(list_words(text))
        once_said = ("said", " ".join(list_words(text)))
        if once_said in self._used:
            raise RejectedAttempt("worded like a question of another template")
        if any(len(its_words & other) >= ALIKE * len(its_words | other) for other in self._texts[path.text]):
            raise RejectedAttempt("worded like another question of the template")
        self._used |= {once, same, once_said, ("answers", tuple(answers))}
        self._texts[path.text].append(its_words)
        self._usage.take(path, topics, answers, requirements)
        nodes = (tuple(topics), tuple(requirements), gold, len(candidates), tuple(answers))
        self.made.append(SyntheticQuestion(number, text, template, *nodes, n_relational, n_textual))

    def _size(self, rng: Random) -> int:
        """Return a random target number of answers, n with probability 1/(n(n+1)): half of all targets are above 1.

        Of the paper's questions, 37 (Prime), 52 (MAG) and 78 % (Amazon) have several answers.
        """
        return min(self._spec.most_answers, max(self._spec.least_answers, int(1 / (1 - rng.random()))))

    def _narrow(
        self, candidates: list[int], n_wanted: int, size: int, rng: Random, said: Collection[str]
    ) -> tuple[int, list[Requirement], list[int]]:
        """Return a gold node, at most `n_wanted` requirements from it, and the candidates that meet them all.

        Of several gold nodes, the one with most requirements is taken; without any, all candidates are answers.
        """
        with_text = [row for row in candidates if self._requirements.has_text(row)] or candidates
        golds = rng.sample(with_text, min(MOST_GOLD if n_wanted else 1, len(with_text)))
        tried = [(gold, *self._require(gold, candidates, n_wanted, size, rng, said)) for gold in golds]
        gold, chosen, answers = max(tried, key=lambda each: len(each[1]))
        if not self._spec.least_answers <= len(answers) <= self._spec.most_answers:
            raise RejectedAttempt("too many answers" if len(answers) > self._spec.most_answers else "too few answers")
        return gold, chosen, sorted(answers)

    def _require(
        self, gold: int, candidates: list[int], n_wanted: int, size: int, rng: Random, said: Collection[str]
    ) -> tuple[list[Requirement], frozenset[int]]:
        """Return requirements that a gold node meets, one phrase at most, and the candidates; each removes some."""
        chosen: list[Requirement] = []
        answers = frozenset(candidates)
        for requirement, met in self._requirements.draw(gold, candidates, size, rng, said) if n_wanted else ():
            again = requirement["kind"] == "phrase" and (chosen or [{}])[-1].get("kind") == "phrase"
            worn = self._usage.phrases[str(requirement["value"])] >= self._usage.most_of_phrase
            left = answers & met
            if left < answers and len(left) >= n_wanted - len(chosen) > 0 and not again and not worn:
                chosen.append(requirement)
                answers = left
        return chosen, answers


def _is_unordered(template: TemplateYield) -> bool:
    """Return whether swapping the two topics of a template gives the same question."""
    walks = template.template.path.walks
    return len(walks) == 2 and walks[0].hops == walks[1].hops and walks[0].start_type == walks[1].start_type


MOST_IN_ONE_GROUP = 0.5
"""Largest share of questions that may hang together by their answers, with `strict`."""


def shared_out(
    keys: Sequence[Sequence[Hashable]], shares: Mapping[str, float], seed: str, strict: bool = False
) -> list[str]:
    """Return the split of each question; questions with a common key are in one split.

    Groups, the largest first, go to the split that is furthest below its share.

    >>> shared_out([["a"], ["b"], ["a", "c"], ["d"]], {"train": 0.5, "test": 0.5}, "0")
    ['train', 'test', 'train', 'test']

    Raises:
        DataError: with `strict`, more than half of the questions hang together.
    """
    groups = connected_groups(keys)
    if strict and groups and max(map(len, groups)) > MOST_IN_ONE_GROUP * len(keys):
        raise DataError(
            f"{max(map(len, groups))} of {len(keys)} questions hang together by their answers, so that one split would "
            "hold them all; expected at most half. Leave strict out of the spec, or lower --count."
        )
    order = sorted(groups, key=lambda group: (-len(group), crc32(f"{seed}/{group[0]}".encode())))
    whole, counts = sum(shares.values()), dict.fromkeys(shares, 0)
    found = [""] * len(keys)
    for group in order:
        split = max(shares, key=lambda name: shares[name] / whole * len(keys) - counts[name])
        counts[split] += len(group)
        for place in group:
            found[place] = split
    return found
