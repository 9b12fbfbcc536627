"""Published results as rows, each with its source: a benchmark's `published.csv`, one figure per line, fractions.

Columns: benchmark, config, split, mode, system, metric, value, source, note, and slice where a figure is of a part of
the examples (`ontology=1_movie`). A note says what is known to be wrong with a figure; one that was published without
any stored basis says so there.
"""

import csv
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


@dataclass
class PublishedRow:
    """What one system was published with, in one place."""

    system: str
    source: str
    scores: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """What is to be said of a figure, by metric."""

    slices: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """Slice name -> key -> metric -> value, for figures that were published of parts."""

    @property
    def note(self) -> str:
        """All notes as one sentence each."""
        return " ".join(f"{metric}: {note}" for metric, note in self.notes.items())


@cache
def read_published(file: Path) -> dict[tuple[str, str, str, str], dict[tuple[str, str], PublishedRow]]:
    """Return place (benchmark, config, split, mode) -> (system, source) -> what was published of it there."""
    places: dict[tuple[str, str, str, str], dict[tuple[str, str], PublishedRow]] = {}
    with file.open(encoding="utf-8", newline="") as source:
        for line in csv.DictReader(source):
            place = (line["benchmark"], line["config"], line["split"], line["mode"])
            system = (line["system"], line["source"])
            row = places.setdefault(place, {}).setdefault(system, PublishedRow(*system))
            name, _, key = (line.get("slice") or "").partition("=")
            scores = row.slices.setdefault(name, {}).setdefault(key, {}) if name else row.scores
            scores[line["metric"]] = float(line["value"])
            if line["note"]:
                row.notes[line["metric"]] = line["note"]
    return places
