"""Human review of a dataset's instances: items, questions, judgments as JSON Lines, and reviewers' agreement.

A judgement is a line of JSON Lines: who, when, of which instance, in which version of the dataset, and an answer to
each question. A later line of a reviewer on an instance takes the place of an earlier one. `kbbench review` and its
page use this. Files of judgments are people's work: their columns, the names of questions and `ReviewItem.sha256` must
stay.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import DatasetFolder

if TYPE_CHECKING:
    from kbbench_hf.metrics.agreement import Kappa


@dataclass(frozen=True)
class ReviewQuestion:
    """A question on an instance, and its answers by the key that gives them."""

    name: str
    text: str
    answers: Mapping[str, str]


_YES_NO = {"y": "yes", "n": "no"}
QUESTIONS = (
    ReviewQuestion("derivable", "Does the gold answer follow from the needed units alone?", _YES_NO),
    ReviewQuestion("superfluous", "Is any needed unit not needed?", _YES_NO),
    ReviewQuestion("other_answer", "Is there another right answer in the noise that is shown?", _YES_NO),
    ReviewQuestion("wording", "How natural is the question's wording?", {"1": "odd", "2": "passable", "3": "natural"}),
)
"""What is asked of an instance with needed units and noise."""
_FIVE = {"1": "1", "2": "2", "3": "3", "4": "4", "5": "5"}
QUERY_QUESTIONS = (
    ReviewQuestion("naturalness", "Would a person ask it in these words? (5: surely, 1: never)", _FIVE),
    ReviewQuestion(
        "diversity", "How different is it from the questions before it? (5: very, 1: the same again)", _FIVE
    ),
    ReviewQuestion("practicality", "Would somebody need the answer? (5: surely, 1: never)", _FIVE),
    ReviewQuestion("correctness", "Do the answers fit the question, and no near miss?", _YES_NO),
)
"""What is asked of a question to a knowledge base: the paper's three, and whether its answers are right."""
NEUTRAL = 3
"""The middle of the five points."""
_SETS = (QUESTIONS, QUERY_QUESTIONS)


@dataclass(frozen=True)
class ReviewItem:
    """An instance for reviewers."""

    id: str
    question: str
    gold: Sequence[Sequence[str]]
    """Each gold answer, and after it its other names."""
    needed: Sequence[Sequence[str]]
    """The units that are needed, cells each."""
    noise: Sequence[Sequence[str]]
    """The units that are most like the question and not needed."""
    header: Sequence[str] = ()
    """The names of a row's cells; empty where units are no rows."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else a reviewer may want to know: title, source."""

    @property
    def sha256(self) -> str:
        """The start of the hash of all that is shown: a judgement holds for this alone."""
        shown = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(shown.encode()).hexdigest()[:16]


ReviewItems = Callable[[DatasetFolder, str, int], list[ReviewItem]]
"""(folder, part, how many of what is reviewed by sample) -> what people are shown, in order."""


@dataclass(frozen=True)
class Judgement:
    """The answers of one reviewer on one instance."""

    instance_id: str
    item_sha256: str
    reviewer: str
    time: str
    """UTC, ISO 8601."""
    version: str
    """The dataset's revision."""
    answers: Mapping[str, str]
    """Question -> answer."""


class Judgements:
    """The judgements in a file, to which one reviewer's are added; each is on disk before the next is asked for."""

    def __init__(
        self, file: Path, reviewer: str, version: str, questions: Sequence[ReviewQuestion] = QUESTIONS
    ) -> None:
        self.file, self.reviewer, self.version, self.questions = file, reviewer, version, questions
        self.all = read_judgements(file) if file.exists() else []

    def of(self, item: ReviewItem) -> Judgement | None:
        """Return this reviewer's last judgment of an instance as it is shown now; None where there is none."""
        own = (each for each in reversed(self.all) if each.reviewer == self.reviewer)
        return next((each for each in own if (each.instance_id, each.item_sha256) == (item.id, item.sha256)), None)

    def add(self, item: ReviewItem, answers: Mapping[str, str]) -> Judgement:
        """Append a judgment to the file and return it.

        Raises:
            DataError: a question has no answer, or one that is none of its answers.
        """
        wrong = [each.name for each in self.questions if answers.get(each.name) not in each.answers.values()]
        if wrong or len(answers) != len(self.questions):
            raise DataError(f"No judgement of {item.id}: expected an answer to each question; see {wrong or answers}.")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        judgement = Judgement(item.id, item.sha256, self.reviewer, now, self.version, dict(answers))
        self.file.parent.mkdir(parents=True, exist_ok=True)
        torn = self.file.exists() and not self.file.read_bytes().endswith(b"\n") and self.file.stat().st_size > 0
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(("\n" if torn else "") + json.dumps(asdict(judgement), ensure_ascii=False) + "\n")
        self.all.append(judgement)
        return judgement


def read_judgements(file: Path) -> list[Judgement]:
    """Return the judgements in a file, in order; a last line that was cut off while it was written is left out.

    Raises:
        DataError: a line is no judgement; the message names it.
    """
    lines = file.read_text(encoding="utf-8").split("\n")
    found: list[Judgement] = []
    for n, line in enumerate(lines, start=1):
        try:
            if line.strip():
                judgement = Judgement(**json.loads(line))
                _questions_of(judgement)  # fails where it is a judgement of other questions
                found.append(judgement)
        except (ValueError, TypeError, RecursionError):
            if n < len(lines):
                raise DataError(
                    f"{file}:{n}: {line[:60]!r} is not a judgment; expected one that 'kbbench review' wrote. Take it "
                    "out."
                ) from None
    return found


def _questions_of(judgement: Judgement) -> Sequence[ReviewQuestion]:
    """Return the set of questions that a judgment answers; ValueError where it answers none of the sets."""
    answers = judgement.answers
    for questions in _SETS if isinstance(answers, dict) else ():
        is_of_these = answers.keys() == {each.name for each in questions}
        if is_of_these and all(answers[each.name] in each.answers.values() for each in questions):
            return questions
    raise ValueError(answers)


class Folded(NamedTuple):
    """How many say yes to a question: shares of `n` judgements, as the paper's table of its human evaluation."""

    positive: float
    """4 or 5 of 5, or yes."""
    non_negative: float
    """3 to 5 of 5, or yes."""
    n: int


def folded(judgements: Iterable[Judgement]) -> dict[str, Folded]:
    """Return each question's share of positive and of non-negative answers; the last of a reviewer on an item holds.

    Source: Wu et al., "STaRK", NeurIPS 2024, Table 5: five points folded to positive and non-negative.
    Differs from upstream: "correctness" is ours, yes or no.

    >>> scale = {"naturalness": "4", "diversity": "3", "practicality": "1", "correctness": "yes"}
    >>> folded([Judgement("1", "a", "ada", "", "", scale)])["diversity"]
    Folded(positive=0.0, non_negative=1.0, n=1)

    Raises:
        DataError: there is no judgement of a question to a knowledge base.
    """
    last = {(each.reviewer, each.instance_id, each.item_sha256): each for each in judgements}
    scaled = [each.answers for each in last.values() if _questions_of(each) is QUERY_QUESTIONS]
    if not scaled:
        raise DataError(
            f"None of {len(last)} judgments answers {QUERY_QUESTIONS[0].name!r}; expected some on questions of a "
            "knowledge base. Review some: kbbench review NAME --reviewer ... --out FILE"
        )
    return {each.name: _fold([answers[each.name] for answers in scaled]) for each in QUERY_QUESTIONS}


def _fold(answers: Sequence[str]) -> Folded:
    points = [{"yes": NEUTRAL + 1, "no": NEUTRAL - 1}.get(answer) or int(answer) for answer in answers]
    n = len(points)
    return Folded(sum(each > NEUTRAL for each in points) / n, sum(each >= NEUTRAL for each in points) / n, n)


@dataclass(frozen=True)
class ReviewerAgreement:
    """Agreement of two reviewers."""

    reviewers: tuple[str, str]
    kappas: "Mapping[str, Kappa]"
    """Question -> their agreement."""
    disagreements: Sequence[tuple[str, str, str, str]]
    """(instance, question, the answer of one reviewer, that of the other), sorted."""
    n_one_only: int
    """How many instances only one of them judged, or judged in another version."""


def agreement(one: Iterable[Judgement], other: Iterable[Judgement]) -> ReviewerAgreement:
    """Return the agreement of two reviewers on the instances that both judged, each question by Cohen's kappa.

    Raises:
        DataError: there is no instance that both judged as it was shown to both, or they are one person.
    """
    from kbbench_hf.metrics.agreement import nominal_kappa

    a, b = ({(each.instance_id, each.item_sha256): each for each in said} for said in (one, other))
    both = sorted(a.keys() & b.keys())
    if not both:
        raise DataError(
            f"The two have no instance in common, of {len(a)} and {len(b)}; expected judgements of one version of a "
            "dataset. Let both review the same."
        )
    names = a[both[0]].reviewer, b[both[0]].reviewer
    questions = _questions_of(a[both[0]])
    if names[0] == names[1]:
        raise DataError(f"Both files are by {names[0]!r}; expected two reviewers. Name each with --reviewer.")
    said = {
        each.name: [(key[0], a[key].answers[each.name], b[key].answers[each.name]) for key in both]
        for each in questions
    }
    kappas = {name: nominal_kappa([x for _, x, _ in pairs], [y for _, _, y in pairs]) for name, pairs in said.items()}
    apart = [(instance, name, x, y) for name, pairs in said.items() for instance, x, y in pairs if x != y]
    return ReviewerAgreement(names, kappas, sorted(apart), len(a.keys() ^ b.keys()))
