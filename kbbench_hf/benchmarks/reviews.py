"""What people say of a dataset's instances: what they are shown, what they are asked, and how far they agree.

A judgement is a line of JSON Lines: who, when, of which instance, in which version of the dataset, and an answer to
each question. A later line of a reviewer on an instance takes the place of an earlier one.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.agreement import Kappa, nominal_kappa


@dataclass(frozen=True)
class Question:
    """A question on an instance, and its answers by the key that gives them."""

    name: str
    text: str
    answers: Mapping[str, str]


_YES_NO = {"y": "yes", "n": "no"}
QUESTIONS = (
    Question("derivable", "Does the gold answer follow from the needed units alone?", _YES_NO),
    Question("superfluous", "Is any needed unit not needed?", _YES_NO),
    Question("other_answer", "Is there another right answer in the noise that is shown?", _YES_NO),
    Question("wording", "How natural is the question's wording?", {"1": "odd", "2": "passable", "3": "natural"}),
)


@dataclass(frozen=True)
class ReviewItem:
    """An instance as a reviewer sees it."""

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
    """What one reviewer said of one instance."""

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

    def __init__(self, file: Path, reviewer: str, version: str) -> None:
        self.file, self.reviewer, self.version = file, reviewer, version
        self.all = read_judgements(file) if file.exists() else []

    def of(self, item: ReviewItem) -> Judgement | None:
        """Return what this reviewer said last of an instance as it is shown now."""
        own = (each for each in reversed(self.all) if each.reviewer == self.reviewer)
        return next((each for each in own if (each.instance_id, each.item_sha256) == (item.id, item.sha256)), None)

    def add(self, item: ReviewItem, answers: Mapping[str, str]) -> Judgement:
        """Write a judgement down.

        Raises:
            DataError: a question has no answer, or one that is none of its answers.
        """
        wrong = [each.name for each in QUESTIONS if answers.get(each.name) not in each.answers.values()]
        if wrong or len(answers) != len(QUESTIONS):
            raise DataError(f"No judgement of {item.id}: expected an answer to each question; see {wrong or answers}.")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        said = Judgement(item.id, item.sha256, self.reviewer, now, self.version, dict(answers))
        self.file.parent.mkdir(parents=True, exist_ok=True)
        torn = self.file.exists() and not self.file.read_bytes().endswith(b"\n") and self.file.stat().st_size > 0
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(("\n" if torn else "") + json.dumps(asdict(said), ensure_ascii=False) + "\n")
        self.all.append(said)
        return said


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
                found.append(_judgement(json.loads(line)))
        except (ValueError, TypeError, KeyError):
            if n < len(lines):
                raise DataError(
                    f"{file}:{n}: {line[:60]!r} is no judgement; expected one that 'kbbench review' wrote. Take it out."
                ) from None
    return found


def _judgement(row: Mapping[str, Any]) -> Judgement:
    said = Judgement(**row)
    if {each.name for each in QUESTIONS} != set(said.answers):
        raise ValueError(said.answers)
    return said


@dataclass(frozen=True)
class Agreement:
    """How far two reviewers agree."""

    reviewers: tuple[str, str]
    kappas: Mapping[str, Kappa]
    """Question -> their agreement."""
    disagreements: Sequence[tuple[str, str, str, str]]
    """(instance, question, what one said, what the other said)."""
    n_one_only: int
    """How many instances only one of them judged, or judged in another version."""


def agreement(one: Iterable[Judgement], other: Iterable[Judgement]) -> Agreement:
    """Return how far two reviewers agree on the instances that both judged, each question by Cohen's kappa.

    Raises:
        DataError: there is no instance that both judged as it was shown to both, or they are one person.
    """
    a, b = ({(each.instance_id, each.item_sha256): each for each in said} for said in (one, other))
    both = sorted(a.keys() & b.keys())
    if not both:
        raise DataError(
            f"The two have no instance in common, of {len(a)} and {len(b)}; expected judgements of one version of a "
            "dataset. Let both review the same."
        )
    names = a[both[0]].reviewer, b[both[0]].reviewer
    if names[0] == names[1]:
        raise DataError(f"Both files are by {names[0]!r}; expected two reviewers. Name each with --reviewer.")
    said = {
        each.name: [(key[0], a[key].answers[each.name], b[key].answers[each.name]) for key in both]
        for each in QUESTIONS
    }
    kappas = {name: nominal_kappa([x for _, x, _ in pairs], [y for _, _, y in pairs]) for name, pairs in said.items()}
    apart = [(instance, name, x, y) for name, pairs in said.items() for instance, x, y in pairs if x != y]
    return Agreement(names, kappas, sorted(apart), len(a.keys() ^ b.keys()))
