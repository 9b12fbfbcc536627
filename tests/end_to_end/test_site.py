"""The site: verdicts follow from figures, every public name is on it, and it builds into pages that need nobody."""

import csv
import sys
from pathlib import Path

import pytest

from tests.golden.recompute import genres, read, stark

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))

from extensions.trust import judged, verdict_of  # noqa: E402

from kbbench_hf.benchmarks.published import PublishedFigure, Source  # noqa: E402

SOURCE = Source("one", "printed", "A Paper", "", "https://a.b", "")


@pytest.mark.parametrize(
    ("printed", "digits", "ours", "verdict"),
    [
        (0.35, 2, 0.345, "exact"),  # a half, rounded up
        (0.34, 2, 0.345, "exact"),  # or down
        (0.34, 2, 0.3499, "cut"),
        (0.35, 2, 0.3401, "close"),
        (0.34, 2, 0.3399999, "exact"),
        (0.34, 2, 0.36, "other"),
        (6.8, 1, 6.69, "close"),
        (0.34, 2, None, "not again"),
    ],
)
def test_a_verdict_follows_from_the_printed_digits(
    printed: float, digits: int, ours: float | None, verdict: str
) -> None:
    assert verdict_of(PublishedFigure(printed, digits, SOURCE, "row"), ours) == verdict


def test_every_published_figure_has_a_verdict_and_what_cannot_be_had_a_reason() -> None:
    found = list(judged())
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) - 1
                for file in (ROOT / "kbbench_hf/benchmarks").glob("*/published.csv"))  # fmt: skip
    assert len(found) == lines
    assert all(each.why for each in found if each.verdict in ("not again", "other"))


def test_what_released_answers_give_is_what_the_site_compares_with(shared: Path) -> None:
    stored = read()
    again = [*stark(shared / "data/stark"), *genres(shared / "data/genres")]
    assert len(again) == sum(place.benchmark[:5] in ("stark", "genre") for place, *_ in stored)
    assert {each[:4]: each.value for each in again} == {key: stored[key] for key in (each[:4] for each in again)}


def test_text2kgbench_averages_on_the_site_are_those_of_another_reading_of_the_release(shared: Path) -> None:
    columns = {"precision": "P", "recall": "R", "f1": "F1", "ontology_conformance": "OC", "subject_hallucination": "SH",
               "relation_hallucination": "RH", "object_hallucination": "OH"}  # fmt: skip
    with (shared / "expected/text2kg_expected.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["F1_full"]]
    full = {(row["dataset"], row["model"], row["variant"], row["ontology"]): row for row in rows}
    n_found = 0
    for (place, system, part, metric), value in read().items():
        if place.benchmark.startswith("text2kg") and place.mode == "reference":
            dataset = place.benchmark.removeprefix("text2kg-").replace("-", "_")
            variant = "unseen" if place.split == "unseen" else "all"
            row = full.get((dataset, system, variant, part.removeprefix("ontology=") or "GLOBAL"))
            if row is not None:
                assert value == pytest.approx(float(row[f"{columns[metric]}_full"]), abs=1e-12)
                n_found += 1
    assert n_found > 300
