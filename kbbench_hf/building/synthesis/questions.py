"""The whole construction without a model: a knowledge base and a spec -> questions, and an account of their making."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from zlib import crc32

from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kbbench_hf.building.lexical_match import ranks_by_words, words
from kbbench_hf.building.synthesis.instances import Names, Usage
from kbbench_hf.building.synthesis.node_phrases import Texts, is_named
from kbbench_hf.building.synthesis.requirements import Requirement, Requirements
from kbbench_hf.building.synthesis.schema import Step, read_schema
from kbbench_hf.building.synthesis.spec import Spec
from kbbench_hf.building.synthesis.templates import Yield, hops_of, left_out, sayable, templates_of
from kbbench_hf.building.synthesis.topic_entities import TopicDraws
from kbbench_hf.building.synthesis.wording import Choice, Wording, is_filled
from kbbench_hf.errors import DataError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.metrics.topics import STOP_WORDS
from kbbench_hf.text.words import list_words

TRIES_WITHOUT_RESULT = 200
"""A template that was refused so often in a row is out of instances."""
ALIKE = 0.9
"""Questions of one template that have this share of their tokens in common are the same."""


EASY, MEDIUM = 5, 100
"""Up to these ranks by words alone."""


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
    left_out: dict[str, str] = field(default_factory=dict)
    """Templates of the spec that cannot be asked, with the reason."""
    unnameable: list[str] = field(default_factory=list)
    unwritable: list[str] = field(default_factory=list)
    """Steps that no metapath can name."""
    alike: list[str] = field(default_factory=list)
    """Relations that are said in the same words as others."""


@dataclass(frozen=True)
class Built:
    """The questions of a knowledge base, in the order of their making, and the account of it."""

    kb: KnowledgeBase
    questions: list[Question]
    splits: list[str]
    """Of each question."""
    difficulties: list[str]
    """Of each question, as `difficulties_of` has it."""
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
    account = Account(seed, n_wanted=count)
    schema, account.alike = sayable(read_schema(kb), spec.words)
    account.unwritable = list(schema.unwritable)
    account.unnameable = [kind for kind in kb.graph.node_types if kind not in schema.nameable]
    draws = TopicDraws(kb)
    account.templates = templates_of(kb, schema, spec, draws, seed)
    account.left_out = left_out(kb, spec, account.templates)
    maker = _Maker(kb, spec, count, seed, draws, schema.mutual)
    active = list(account.templates)
    fruitless: Counter[str] = Counter()
    place = 0
    while active and len(maker.made) < count:
        template = active[place % len(active)]
        try:
            is_choosy = fruitless[template.template.metapath] < TRIES_WITHOUT_RESULT / 2
            maker.attempt(account.n_attempts, template, is_choosy)
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
    return Built(kb, maker.made, splits_of(maker.made, spec, seed), difficulties_of(kb, maker.made), account)


def difficulties_of(kb: KnowledgeBase, questions: Sequence[Question]) -> list[str]:
    """Return how far each question's words alone lead, by BM25 over the names and texts of all nodes.

    `easy`: its best answer is among the first 5 nodes; `medium`: among the first 100; else `hard`.
    """
    asked = [words(each.text) - STOP_WORDS for each in questions]
    ranks = ranks_by_words(kb, asked, [each.answers for each in questions])
    return ["easy" if rank <= EASY else "medium" if rank <= MEDIUM else "hard" for rank in ranks]


def splits_of(questions: Sequence[Question], spec: Spec, seed: str) -> list[str]:
    """Return the split of each question: none has its answer set or topic set in two; with `strict`, no answer."""
    keys = [
        [("answers", each.answers), ("topics", frozenset(each.topics))]
        + ([("answer", row) for row in each.answers] if spec.strict else [])
        for each in questions
    ]
    return shared_out(keys, spec.splits, seed, spec.strict)


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

    def attempt(self, number: int, template: Yield, is_choosy: bool = True) -> None:
        """Make one question of a template; a choosy attempt wants candidates enough for the answers that it drew.

        Raises:
            Refused: it cannot be asked.
        """
        path, rng = template.template.path, Random(f"{self._seed}/{number}")
        drawn = self._draws.draw(path, rng)
        if drawn is None:
            raise Refused("no candidate")
        topics, candidates = drawn
        if reason := self._names.refusal(topics) or self._usage.refusal_of_topics(path, topics):
            raise Refused(reason)
        once = (path.text, frozenset(topics) if _is_unordered(template) else tuple(topics))
        if once in self._asked:
            raise Refused("asked already")
        if not candidates:
            raise Refused("no candidate")
        if len(candidates) > self._spec.most_candidates:
            raise Refused("too many candidates")
        n_wanted = self._spec.requirements and rng.randint(0, self._spec.requirements)
        size = self._size(rng)
        if is_choosy and len(candidates) < max(size, min(2**n_wanted * size, template.median_answers)):
            raise Refused("fewer candidates than the number of answers that was drawn")
        gold = self._gold(candidates, rng)
        requirements, answers = self._narrowed(gold, candidates, n_wanted, size, rng)
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
        if not is_filled(question.text, [*said.values()]):
            raise Refused("the sentence is not whole")
        if any(is_named(name, question.text) for name in self._names.of(answers)):
            raise Refused("an answer is named in the question")
        its_words = frozenset(list_words(question.text))
        once_said = ("said", " ".join(list_words(question.text)))
        if once_said in self._asked:
            raise Refused("worded like a question of another template")
        if any(len(its_words & other) >= ALIKE * len(its_words | other) for other in self._texts[path.text]):
            raise Refused("worded like another question of the template")
        self._asked |= {once, same, once_said}
        self._texts[path.text].append(its_words)
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

    def _size(self, rng: Random) -> int:
        """Return a number of answers to aim at, n with chance 1/(n(n+1)): about half of all questions want several.

        Of the paper's, 37 (Prime), 52 (MAG) and 78 % (Amazon) have.
        """
        return min(self._spec.most_answers, max(self._spec.least_answers, int(1 / (1 - rng.random()))))

    def _narrowed(
        self, gold: int, candidates: list[int], n_wanted: int, size: int, rng: Random
    ) -> tuple[list[Requirement], list[int]]:
        """Return up to so many requirements, and the candidates that meet them all: as many as the spec allows.

        Each takes candidates away, a second one none that `size` wants, or there are no more than that: then they say
        more of the answers that there are. Where nothing narrows the candidates, these are the answers.
        """
        chosen: list[Requirement] = []
        answers = frozenset(candidates)
        for requirement, met in self._requirements.draw(gold, candidates, size, rng) if n_wanted else ():
            left = answers & met
            takes_away = left < answers and not (chosen and len(left) < size)
            if len(chosen) < n_wanted and (takes_away or (left == answers and len(answers) <= size)):
                chosen.append(requirement)
                answers = left
        if not self._spec.least_answers <= len(answers) <= self._spec.most_answers:
            raise Refused("too many answers" if len(answers) > self._spec.most_answers else "too few answers")
        return chosen, sorted(answers)


def _is_unordered(template: Yield) -> bool:
    """Say whether exchanging two topics of a template asks the same."""
    walks = template.template.path.walks
    return len(walks) == 2 and walks[0].hops == walks[1].hops and walks[0].start_type == walks[1].start_type


MOST_IN_ONE_GROUP = 0.5


def shared_out(
    keys: Sequence[Sequence[Hashable]], shares: Mapping[str, float], seed: str, strict: bool = False
) -> list[str]:
    """Return the split of each question; questions that have a key in common are in one split.

    Groups, the largest first, go to the split that is furthest below its share.

    >>> shared_out([["a"], ["b"], ["a", "c"], ["d"]], {"train": 0.5, "test": 0.5}, "0")
    ['train', 'test', 'train', 'test']

    Raises:
        DataError: with `strict`, more than half of the questions hang together.
    """
    groups = _groups(keys)
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


def _groups(keys: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """Return the places of the questions that hang together, each group ascending."""
    numbers: dict[Hashable, int] = {}
    pairs = [(place, numbers.setdefault(key, len(numbers))) for place, each in enumerate(keys) for key in each]
    n = len(keys) + len(numbers)
    rows, columns = [place for place, _ in pairs], [len(keys) + number for _, number in pairs]
    _, labels = connected_components(coo_array(([1] * len(pairs), (rows, columns)), shape=(n, n)), directed=False)
    groups: dict[int, list[int]] = defaultdict(list)
    for place, label in enumerate(labels[: len(keys)].tolist()):
        groups[label].append(place)
    return list(groups.values())
