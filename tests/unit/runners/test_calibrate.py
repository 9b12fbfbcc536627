"""Calibrating an embedder on stored outputs and published figures."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kbbench_hf.benchmarks import TaskKey, benchmark
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext
from kbbench_hf.benchmarks.genres.topic_corpora import RELEASE_NAMES
from kbbench_hf.benchmarks.published import PublishedRow, PublishedScore, Source
from kbbench_hf.building.genres import release as genres
from kbbench_hf.errors import DataError
from kbbench_hf.runners import calibration
from kbbench_hf.runners.calibration import calibrate_embedder

RULES = benchmark("genres-corpora").scoring.annotations
TEXTS = [f"Text {n} ." for n in range(12)]


class Random:
    """Embeds each text as its own fixed direction, all of them a little alike."""

    name = "random@1"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        seeds = [np.random.default_rng(list(text.encode())) for text in texts]
        return np.stack([rng.normal(1.0, 1.0, 16) for rng in seeds]).astype(np.float32)


@pytest.fixture
def examples() -> Examples:
    rows = []
    for n, text in enumerate(TEXTS):
        gold = [{"sub": f"a{n}", "rel": "r", "obj": f"b{n}"}]
        rows.append({"id": str(n), "text": text, "triples": gold, "triples_stated": gold})
    return Examples(rows, CorpusContext("wiki20m", ("r",)))


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Outputs of four systems that say more and more, and go wrong more and more."""
    folder = tmp_path / "GenRES/processed_results"
    folder.mkdir(parents=True)
    for size, name in enumerate(("gpt-4", "mistral", "openchat", "zephyr-7b-beta"), start=2):
        answers = {
            text: [[f"a{n}", f"r{size}{k}", f"b{n + k + n % size}"] for k in range(size)]
            for n, text in enumerate(TEXTS)
        }
        (folder / f"wiki20m_rand_500_{name}_1.json").write_text(json.dumps(answers), encoding="utf-8")
    return folder.parent


def publish(monkeypatch: pytest.MonkeyPatch, figures: dict[str, tuple[float, float]], **notes: dict[str, str]) -> None:
    place, source = TaskKey("genres-corpora", "wiki20m", "test", "reference"), Source("", "printed", "", "", "", "")
    rows = {
        system: PublishedRow(
            place,
            system,
            {
                metric: PublishedScore(value, 3, source, system, notes.get(system, {}).get(metric, ""))
                for metric, value in (("uniqueness", us), ("completeness", cs))
            },
        )
        for system, (us, cs) in figures.items()
    }
    monkeypatch.setattr(genres, "read_published", lambda _: {place: rows})


def test_the_thresholds_that_made_the_figures_are_found(
    release: Path, examples: Examples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = ("GPT-4", "Mistral-7B-Instruct", "OpenChat-3.5", "Zephyr-7B-beta")
    publish(monkeypatch, dict.fromkeys(systems, (0.5, 0.5)))
    calibrate_embedder(RULES, release, examples, Random(), tmp_path / "work", show=False)
    made = {
        system: (
            calibration._mean_uniqueness(examples, annotations, answers, 0.7),
            calibration._mean_completeness(RULES, examples, annotations, answers, 0.8),
        )
        for system in systems
        for annotations in [calibration.Annotations(tmp_path / "work" / RELEASE_NAMES[system])]
        for answers in [genres.stored_answers(release, "wiki20m", RELEASE_NAMES[system], examples)]
    }
    publish(monkeypatch, made)
    thresholds, found = calibrate_embedder(RULES, release, examples, Random(), tmp_path / "work", show=False)
    assert found["uniqueness"].mean_absolute_error == found["completeness"].mean_absolute_error == 0
    assert (thresholds.uniqueness, thresholds.completeness) == pytest.approx((0.7, 0.8), abs=0.05)
    assert thresholds.corpus == "wiki20m"
    assert thresholds.basis.startswith("published figures: CS of a system left out is off by")
    assert found["completeness"].n_systems == 4


def test_figures_without_a_stored_basis_take_no_part(
    release: Path, examples: Examples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(
        calibration,
        "calibrate",
        lambda figures, published: asked.append(list(published)) or calibration.Calibration(0.5, 0.0, 1.0, 0.0, 3),
    )
    systems = ("GPT-4", "Mistral-7B-Instruct", "OpenChat-3.5")
    publish(
        monkeypatch,
        {system: (0.1 * n, 0.2 * n) for n, system in enumerate(systems, start=1)},
        **{"GPT-4": {"uniqueness": "no stored basis: the stored files give 0.2"}},
    )
    calibrate_embedder(RULES, release, examples, Random(), tmp_path / "work", show=False)
    assert asked == [[pytest.approx(0.2), pytest.approx(0.3)], [pytest.approx(x) for x in (0.2, 0.4, 0.6)]]


def test_a_release_without_outputs_is_refused(examples: Examples, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no stored outputs of wiki20m"):
        calibrate_embedder(RULES, tmp_path, examples, Random(), tmp_path / "work", show=False)


def test_the_systems_are_those_that_were_published() -> None:
    from kbbench_hf.benchmarks.baselines import published_rows

    rows = published_rows("genres-corpora", "wiki20m", "test", "reference")
    assert {row.system for row in rows} - {"Ground truth"} == set(RELEASE_NAMES)
