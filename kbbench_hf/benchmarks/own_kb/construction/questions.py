"""The whole construction without a model: a knowledge base and a spec -> questions, and an account of their making."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kbbench_hf.benchmarks.own_kb.construction.instances import Names, Usage
from kbbench_hf.benchmarks.own_kb.construction.requirements import Requirement, Requirements
from kbbench_hf.benchmarks.own_kb.construction.schema import Step, read_schema
from kbbench_hf.benchmarks.own_kb.construction.spec import Spec
from kbbench_hf.benchmarks.own_kb.construction.splits import shared_out
from kbbench_hf.benchmarks.own_kb.construction.templates import Yield, hops_of, templates_of
from kbbench_hf.benchmarks.own_kb.construction.texts import Texts, tokens
from kbbench_hf.benchmarks.own_kb.construction.topics import TopicDraws
from kbbench_hf.benchmarks.own_kb.construction.wording import Choice, Wording, is_clean
from kbbench_hf.errors import DataError
from kbbench_hf.knowledge_base.store import KnowledgeBase

TRIES_WITHOUT_RESULT = 60
"""A template that was refused so often in a row is out of instances."""
ALIKE = 0.9
"""Questions of one template that have this share of their tokens in common are the same."""


class Refused(Exception):
    """An attempt gave no question; the message says why."""


@dataclass(frozen=True)
class Question:
    """One question; nodes are row numbers."""

    attempt: int
    text: str
    template: Yield
    topics: tuple[int, ...]
    requirements: tuple[Requirement, ...]
    gold: int
    n_candidates: int
    answers: tuple[int, ...]
    n_relational: int
    n_textual: int
    made_by: Mapping[str, Any] | None = None
    """The models that wrote and judged it, what they said, and their votes; None where there were none."""

    @property
    def hops(self) -> int:
        """The number of edges that its template names."""
        return hops_of(self.template.template.path)


@dataclass
class Account:
    """What was tried and what came of it."""

    seed: str
    n_attempts: int = 0
    n_wanted: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    templates: list[Yield] = field(default_factory=list)
    exhausted: list[str] = field(default_factory=list)
    """Templates that ran out of instances, and left their share to the others."""
    unnameable: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Built:
    """The questions of a knowledge base, in the order of their making, and the account of it."""

    kb: KnowledgeBase
    questions: list[Question]
    splits: list[str]
    """Of each question."""
    account: Account


def make_questions(
    kb: KnowledgeBase,
    spec: Spec,
    count: int,
    seed: str = "0",
    advance: Callable[[], object] = lambda: None,
) -> Built:
    """Make up to `count` questions; fewer where the templates run out of instances.

    The same knowledge base, spec and seed give the same questions. Every attempt has random numbers of its own.

    Raises:
        DataError: no template, or no question, could be made.
    """
    schema = read_schema(kb)
    account = Account(seed, n_wanted=count)
    account.unnameable = [kind for kind in kb.graph.node_types if kind not in schema.nameable]
    draws = TopicDraws(kb)
    account.templates = templates_of(kb, schema, spec, draws, seed)
    maker = _Maker(kb, spec, count, seed, draws, schema.mutual)
    active = list(account.templates)
    fruitless: Counter[str] = Counter()
    place = 0
    while active and len(maker.made) < count:
        template = active[place % len(active)]
        try:
            maker.attempt(account.n_attempts, template)
            fruitless[template.template.metapath] = 0
            advance()
        except Refused as refused:
            account.refusals[str(refused)] += 1
            fruitless[template.template.metapath] += 1
        account.n_attempts += 1
        if fruitless[template.template.metapath] >= TRIES_WITHOUT_RESULT:
            active.remove(template)
            account.exhausted.append(template.template.metapath)
        else:
            place += 1
    if not maker.made:
        reasons = ", ".join(f"{reason} ({n:,})" for reason, n in account.refusals.most_common())
        raise DataError(
            f"None of {account.n_attempts:,} attempts gave a question: {reasons}. Widen the bounds in the spec, or "
            "list other templates there."
        )
    keys = [
        [("answers", each.answers), ("topics", frozenset(each.topics))]
        + ([("answer", row) for row in each.answers] if spec.strict else [])
        for each in maker.made
    ]
    return Built(kb, maker.made, shared_out(keys, spec.splits, seed, spec.strict), account)


class _Maker:
    """Makes questions one after the other, and knows which there are."""

    def __init__(
        self, kb: KnowledgeBase, spec: Spec, count: int, seed: str, draws: TopicDraws, mutual: Collection[Step]
    ) -> None:
        self.made: list[Question] = []
        self._kb, self._spec, self._seed, self._draws = kb, spec, seed, draws
        self._names, self._usage, self._wording = Names(kb), Usage(kb, count), Wording(spec.words, mutual)
        self._requirements = Requirements(kb, Texts(kb))
        self._asked: set[tuple[Any, ...]] = set()
        self._texts: dict[str, list[frozenset[str]]] = defaultdict(list)

    def attempt(self, number: int, template: Yield) -> None:
        """Make one question of a template.

        Raises:
            Refused: it cannot be asked.
        """
        path, rng = template.template.path, Random(f"{self._seed}/{number}")
        topics = self._draws.draw(path, rng)
        if topics is None:
            raise Refused("no candidate")
        if reason := self._names.refusal(topics) or self._usage.refusal_of_topics(path, topics):
            raise Refused(reason)
        once = (path.text, frozenset(topics) if _is_unordered(template) else tuple(topics))
        if once in self._asked:
            raise Refused("asked already")
        candidates = path.answers(self._kb.graph, *topics).tolist()
        if not candidates:
            raise Refused("no candidate")
        if len(candidates) > self._spec.most_candidates:
            raise Refused("too many candidates")
        gold = self._gold(candidates, rng)
        requirements, answers = self._narrowed(gold, candidates, rng)
        if reason := self._usage.refusal_of_answers(answers):
            raise Refused(reason)
        same = (frozenset(topics), tuple(answers))
        if same in self._asked:
            raise Refused("the same topics and answers by another template")
        said = {
            label: self._names.said(row, self._wording.type(kind))
            for label, row, kind in zip(path.topics, topics, self._kb.types(topics), strict=True)
        }
        question = self._wording.ask(template.template, said, requirements, Choice(self._seed, len(self.made)))
        if not is_clean(question.text, [*said.values()], self._names.of(answers)):
            raise Refused("an answer is named in the question")
        words = frozenset(tokens(question.text))
        if any(len(words & other) >= ALIKE * len(words | other) for other in self._texts[path.text]):
            raise Refused("worded like another question of the template")
        self._asked |= {once, same}
        self._texts[path.text].append(words)
        self._usage.take(path, topics, answers)
        self.made.append(
            Question(
                number,
                question.text,
                template,
                tuple(topics),
                tuple(requirements),
                gold,
                len(candidates),
                tuple(answers),
                question.n_relational,
                question.n_textual,
            )
        )

    def _gold(self, candidates: list[int], rng: Random) -> int:
        with_text = [row for row in candidates if self._requirements.has_text(row)]
        among = with_text or candidates
        return among[rng.randrange(len(among))]

    def _narrowed(self, gold: int, candidates: list[int], rng: Random) -> tuple[list[Requirement], list[int]]:
        """Return requirements, and the candidates that meet them all: as many as the spec allows.

        None of them is without effect beside the others.
        """
        wanted = rng.randint(0, self._spec.requirements)
        chosen: list[Requirement] = []
        answers = frozenset(candidates)
        if wanted:
            sets: list[frozenset[int]] = []
            for requirement, met in self._requirements.draw(gold, candidates, rng):
                if len(chosen) < wanted and not any(met <= other or other <= met for other in sets):
                    chosen.append(requirement)
                    sets.append(met)
                    answers &= met
            if not chosen:
                raise Refused("nothing narrows the answers")
        if not self._spec.least_answers <= len(answers) <= self._spec.most_answers:
            raise Refused("too many answers" if len(answers) > self._spec.most_answers else "too few answers")
        return chosen, sorted(answers)


def _is_unordered(template: Yield) -> bool:
    """Say whether exchanging two topics of a template asks the same."""
    walks = template.template.path.walks
    return len(walks) == 2 and walks[0].hops == walks[1].hops and walks[0].start_type == walks[1].start_type
