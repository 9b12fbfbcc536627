"""Findings of shortcut audits: the score and limit of each shortcut, their table on the card, and waivers.

`base.Data.audit` is the audit of a benchmark. A sentence on the dataset's card can waive a limit.
`building` measures the shortcuts, `kbbench audit` shows and writes them; released cards have their table and keys.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kbbench_hf.errors import DataError, KBBenchError
from kbbench_hf.files.datasets import CARD, DatasetFolder, canary
from kbbench_hf.files.writing import write_text

ClosedBook = Mapping[str, Sequence[str]]
"""Instance id -> the answers of a model that saw only the question."""
BEGIN, END = "<!-- audit -->", "<!-- end of audit -->"
_WAIVER = re.compile(r"^[-*] `(?P<key>[\w.]+)`: (?P<sentence>\S.{20,})$", re.MULTILINE)
FEWEST = 40
"""With fewer examples a score is chance, and has no limit."""


@dataclass(frozen=True)
class Finding:
    """The score of one shortcut on one part of a dataset."""

    part: str
    """The part of the dataset, `kg` say."""
    name: str
    """The shortcut, `grep_units` say."""
    title: str
    """The same in words."""
    value: float
    """Its score; NaN where it cannot be tried."""
    limit: float
    n: int
    """Number of examples."""
    waiver: str = ""
    """The sentence on the card that accepts a score above the limit."""

    @property
    def key(self) -> str:
        """Its name in waivers, `kg.grep_units` say."""
        return f"{self.part}.{self.name}"

    @property
    def is_over(self) -> bool:
        """Whether the score is above its limit, over enough examples."""
        return self.value > self.limit and self.n >= FEWEST

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `--json`; NaN is None."""
        value = None if math.isnan(self.value) else self.value
        return {**asdict(self), "value": value, "is_over": self.is_over}


Audit = Callable[[DatasetFolder, "ClosedBook | None"], list[Finding]]


def waivers(card: str) -> dict[str, str]:
    """Return the sentences on a card that accept scores above a limit, by the key of the finding.

    >>> waivers("- `kg.first_unit`: Films have one genre, so the first unit is often right.")
    {'kg.first_unit': 'Films have one genre, so the first unit is often right.'}
    """
    return {found["key"]: found["sentence"].strip() for found in _WAIVER.finditer(_without_audit(card))}


def waived(folder: DatasetFolder, findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with the waivers of the dataset's card."""
    by_key = waivers(read_card(folder))
    return [replace(each, waiver=by_key.get(each.key, "")) for each in findings]


MOST_OF_BEST = 0.6
"""Limit of a shortcut's score as a share of the best model's."""
GUESS = "_alone"
"""Suffix of the names of findings whose scores are comparable to a model's."""


def beside_models(findings: Sequence[Finding], part: str, reached: Mapping[str, tuple[float, int]]) -> list[Finding]:
    """Return findings with the score of each model on a part, and each shortcut's share of the best one.

    `reached` has for each model its score and number of examples; a model's score has no limit.
    """
    best = max(value for value, _ in reached.values())
    of_models = [
        Finding(part, f"run_{model}", f"the model {model}", value, 1.0, n) for model, (value, n) in reached.items()
    ]
    shares = []
    for each in findings:
        if each.part == part and each.name.endswith(GUESS):
            title = f"{each.name}, as a share of the best of these models"
            share = each.value / best if best > 0 else math.nan
            shares.append(Finding(part, f"{each.name}_of_best", title, share, MOST_OF_BEST, each.n))
    return [*findings, *of_models, *shares]


def read_card(folder: DatasetFolder) -> str:
    """Return the card of a dataset; empty where it has none."""
    file = folder.path / CARD
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def write_into_card(folder: DatasetFolder, findings: Sequence[Finding]) -> None:
    """Write the table of an audit at the end of the dataset's card, in place of the last one."""
    card = _without_audit(read_card(folder)).rstrip()
    write_text(folder.path / CARD, f"{card}\n\n{BEGIN}\n{in_markdown(findings)}{END}\n")


def in_markdown(findings: Sequence[Finding]) -> str:
    """Return the findings as a section of a card: a row for each shortcut, a column for each part."""
    parts = list(dict.fromkeys(each.part for each in findings))
    by_name: dict[str, dict[str, Finding]] = {}
    for each in findings:
        by_name.setdefault(each.name, {})[each.part] = each
    lines = [
        "## What can be had without understanding",
        "",
        "What guesses reach that read no meaning, on a fixed sample of the standard configs; a release stays within",
        f"the limits, or says here why it does not. **Bold**: above the limit; on fewer than {FEWEST} examples",
        "there is none.",
        "",
        f"| tried | limit | {' | '.join(parts)} |",
        f"|---|---|{'---|' * len(parts)}",
    ]
    for by_part in by_name.values():
        first = next(iter(by_part.values()))
        cells = [_cell(by_part[part]) if part in by_part else "" for part in parts]
        lines.append(f"| {first.title} | {first.limit:.2f} | {' | '.join(cells)} |")
    if over := [each for each in findings if each.is_over]:
        lines.append("")
        lines += [f"Above its limit: `{each.key}`, {each.value:.3f}. {each.waiver or _UNWAIVED}" for each in over]
    return "\n".join(lines) + "\n"


_UNWAIVED = "**Not waived: not to be released as it is.**"


def _cell(found: Finding) -> str:
    """Return a score as a cell: three digits, bold above its limit, "-" where it could not be measured."""
    if math.isnan(found.value):
        return "-"
    return f"**{found.value:.3f}**" if found.is_over else f"{found.value:.3f}"


def _without_audit(card: str) -> str:
    """Return a card without the section of its audit."""
    before, begun, rest = card.partition(BEGIN)
    return before + rest.partition(END)[2] if begun else card


def is_released(card: str) -> bool:
    """Return whether no score in the audit of a card is above its limit without a waiver; True without an audit."""
    return _UNWAIVED not in card


def refuse_unwaived(findings: Iterable[Finding]) -> None:
    """Fail where a score is above its limit and no sentence on the card accepts it.

    Raises:
        KBBenchError: there are such scores; the message has each of them.
    """
    if over := [each for each in findings if each.is_over and not each.waiver]:
        listed = ", ".join(f"{each.key} {each.value:.3f} (limit {each.limit:.2f})" for each in over)
        raise KBBenchError(
            f"{len(over)} baselines are above their limits: {listed}. Expected none. Fix the dataset, or accept each "
            f"in its card with a list item: - `{over[0].key}`: the reason in one sentence.",
            code="audit",
        )


def refuse_without_canary(folder: DatasetFolder) -> None:
    """Fail where the card lacks the canary of its dataset, by which leaked examples are found.

    Raises:
        KBBenchError: it has none, or that of another dataset.
    """
    title = re.search(r"^pretty_name: *[\"']?(.*?)[\"']? *$", read_card(folder), re.M)
    if folder.canary != (wanted := canary(title[1] if title else "")):
        raise KBBenchError(
            f"{folder.path} has the canary GUID {folder.canary or 'of none'} on its card; expected {wanted}. Build it "
            "again.",
            code="audit",
        )


def read_closed_book(file: Path) -> dict[str, list[str]]:
    """Return the answers in a JSON Lines file of `instance_id` and `answers`.

    Raises:
        DataError: a line is no such object, or an id is there twice; the message names the line.
    """
    found: dict[str, list[str]] = {}
    for n, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            name, answers = row["instance_id"], row["answers"]
        except (ValueError, KeyError, TypeError, RecursionError):
            name, answers = "", None
        if not name or not isinstance(name, str) or not isinstance(answers, list) or name in found:
            raise DataError(
                f"{file}:{n}: {line[:60]!r} is not one answered question; expected an object with instance_id, that no "
                "line before it has, and answers, a list. Fix the line."
            )
        found[name] = [str(answer) for answer in answers]
    return found
