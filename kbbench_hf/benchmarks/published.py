"""Published scores with their provenance: what a score is, and the tables that contain them.

`benchmarks.baselines` looks systems up here; the leaderboard, reports and comparisons show them.

A benchmark's `published.csv` has one score a line. Each source is described once in the table beside it, `sources.csv`.
Both are checked against the sources by tests: a value is never corrected, a known fault is a note. Values are
fractions, written with the digits that were printed; `digits` stands only where a value has more of them than its
source. `slice` names a part of the examples (`ontology=1_movie`), `key` the row of the source under which the score
stands, the system's name where empty. A note says what is known to be wrong with a score. `systems.csv` has the type of
each system, and its size and language model where a source states them.

Second-hand scores (`secondary`) are listed apart with their source, and are in no table, plot or leaderboard.
"""

import csv
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal, cast, get_args

from kbbench_hf.benchmarks.base import TaskKey
from kbbench_hf.errors import DataError

SOURCES, SYSTEMS = "sources.csv", "systems.csv"

Kind = Literal["printed", "released", "recomputed", "secondary"]
"""`printed` in a paper by those who measured; `released` in the files beside it; `recomputed` here from released
answers, and the same as the source at its digits; `secondary`: known only from a text of other authors."""


@dataclass(frozen=True)
class Source:
    """The source of scores: a table of a paper, or a file of a release."""

    name: str
    kind: Kind
    work: str
    where: str
    url: str
    note: str
    date: str = ""
    """Year, or year and month (`2024-04`), from its arXiv number or as it is written; empty if unknown."""

    def __str__(self) -> str:
        """Return it as it is cited."""
        return ", ".join(filter(None, (self.work, self.where)))


@dataclass(frozen=True)
class PublishedScore:
    """A score, how exactly it was given, and where it can be found."""

    value: float
    digits: int
    """How many digits after the point the source has, of the value as a fraction."""
    source: Source
    key: str
    """The row of the source under which it stands."""
    note: str = ""

    @property
    def kind(self) -> Kind:
        """The kind of its source."""
        return self.source.kind

    @property
    def second_hand(self) -> bool:
        """Whether it was read in another text than that of the authors who measured it."""
        return self.kind == "secondary"

    @property
    def printed(self) -> str:
        """The value with the digits that its source has."""
        return f"{self.value:.{self.digits}f}"


PublishedScores = Mapping[str, PublishedScore]
"""Metric -> score."""


@dataclass(frozen=True)
class PublishedRow:
    """The published scores of one system in one place."""

    task_key: TaskKey
    """Its mode is empty where the source does not say how answers were compared."""
    system: str
    figures: PublishedScores
    slices: Mapping[str, Mapping[str, PublishedScores]] = field(default_factory=dict)
    """Slice name -> key -> scores, for those that were published of parts."""
    system_type: str = ""
    """The kind of system, such as `sparse retriever`; empty where no source states it."""
    parameters_b: float | None = None
    """Model size in billions of parameters; None where no source states it."""
    model: str = ""
    """The language model that the system uses; empty where no source states it."""

    def part(self, *, second_hand: bool) -> "PublishedRow":
        """Return the row with its second-hand scores only, or with all others."""
        kept = {metric: score for metric, score in self.figures.items() if score.second_hand == second_hand}
        return replace(self, figures=kept, slices={} if second_hand else self.slices)

    @property
    def year(self) -> str:
        """The year of its first source; empty if unknown."""
        return self.sources[0].date[:4] if self.sources else ""

    @property
    def id(self) -> str:
        """A name made of system and place, which does not change as long as these do not; addresses contain it."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.system.lower()).strip("-")
        return f"published-{slug}-{hashlib.sha256(f'{self.task_key}/{self.system}'.encode()).hexdigest()[:6]}"

    @property
    def scores(self) -> dict[str, float]:
        """Metric -> value."""
        return {metric: figure.value for metric, figure in self.figures.items()}

    @property
    def notes(self) -> dict[str, str]:
        """Metric -> the note on its score; metrics without a note are absent."""
        return {metric: figure.note for metric, figure in self.figures.items() if figure.note}

    @property
    def note(self) -> str:
        """All notes as one sentence each."""
        return " ".join(f"{metric}: {note}" for metric, note in self.notes.items())

    @property
    def sources(self) -> list[Source]:
        """Where its scores come from, each source once."""
        parts = (figures for keys in self.slices.values() for figures in keys.values())
        return list(dict.fromkeys(figure.source for each in (self.figures, *parts) for figure in each.values()))


@cache
def read_published(file: Path) -> dict[TaskKey, dict[str, PublishedRow]]:
    """Return place -> system -> its published scores there, in the order of the file; cached.

    Raises:
        DataError: a score stands twice, or names no source of `sources.csv`.
    """
    sources, systems = _read_sources(file.with_name(SOURCES)), _read_systems(file.with_name(SYSTEMS))
    rows: dict[tuple[TaskKey, str], dict[str, dict[str, dict[str, PublishedScore]]]] = {}
    for line in _csv_rows(file):
        task_key = TaskKey(line["benchmark"], line["config"], line["split"], line["mode"])
        name, _, part = line["slice"].partition("=")
        figures = rows.setdefault((task_key, line["system"]), {}).setdefault(name, {}).setdefault(part, {})
        if line["metric"] in figures or line["source"] not in sources:
            raise DataError(f"{file}: {line} occurs twice, or its source is not in {SOURCES}. Fix the table.")
        digits = int(line["digits"] or len(line["value"].partition(".")[2]))
        figures[line["metric"]] = PublishedScore(
            float(line["value"]), digits, sources[line["source"]], line["key"] or line["system"], line["note"]
        )
    places: dict[TaskKey, dict[str, PublishedRow]] = {}
    for (task_key, system), parts in rows.items():
        whole = parts.pop("", {}).get("", {})
        places.setdefault(task_key, {})[system] = PublishedRow(task_key, system, whole, parts, *systems.get(system, ()))
    return places


def _read_systems(file: Path) -> dict[str, tuple[str, float | None, str]]:
    """Return system -> its type, its size in billions of parameters and its language model; empty without a file."""
    if not file.is_file():
        return {}
    rows = _csv_rows(file)
    models = {row["system"]: row["system"] if row["type"] == "language model" else row.get("model", "") for row in rows}
    return {
        row["system"]: (row["type"], float(row["parameters_b"] or 0) or None, models[row["system"]]) for row in rows
    }


def _csv_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file by the names of its columns."""
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def date_of(citation: str) -> str:
    """Return the date of a source that is cited: `2024-04` by an arXiv number, else the year; empty if unknown.

    >>> date_of("A paper (arXiv 2404.13207), Table 6"), date_of("A paper (ACL 2025)"), date_of("A release")
    ('2024-04', '2025', '')
    """
    if number := re.search(r"arXiv[: ](\d\d)(\d\d)\.\d{4,5}", citation):
        return f"20{number[1]}-{number[2]}"
    year = re.search(r"\b(20\d\d)\b", citation)
    return year[1] if year else ""


def _read_sources(file: Path) -> dict[str, Source]:
    """Return name -> source.

    Raises:
        DataError: a kind is not one of `Kind`.
    """
    found = {}
    for line in _csv_rows(file):
        texts = [line[name] for name in ("work", "where", "url", "note")]
        texts.append(line.get("year") or date_of(line["work"]))
        found[line["source"]] = Source(line["source"], cast(Kind, line["kind"]), *texts)
    if unknown := [each for each in found.values() if each.kind not in get_args(Kind)]:
        raise DataError(f"{file}: {unknown[0].kind!r} is not a kind; expected one of {get_args(Kind)}. Fix the table.")
    return found
