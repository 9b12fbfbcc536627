"""GenRES's stored model outputs, verdicts and cosines give its recomputed figures.

Figures: `expected/genres_expected.csv` of the shared data, rows "recomputed ...", percent with four decimals; tokens by
NLTK 3.9.2. Data: pat-jj/GenRES at 7824249 (outputs, verdicts) and c0968af (cosines).
"""

import csv
import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbbench_hf.metrics.generative_re import (
    completeness,
    count_pairs,
    factualness,
    granularity,
    hard_match,
    tokens_per_triple,
    triples_per_document,
)
from kbbench_hf.text.tokens import tokenize

PERCENT = {"FS", "GS", "CS", "P", "R", "F1"}
Key = tuple[str, str]


@pytest.fixture(scope="module")
def release(shared: Path) -> Path:
    return shared / "data" / "genres"


@pytest.fixture(scope="module")
def outputs(release: Path) -> dict[Key, dict[str, list[Any]]]:
    return {_key(file.stem): _read(file) for file in sorted((release / "outputs").glob("*.json"))}


def expected(shared: Path, metric: str, source: str) -> dict[Key, float]:
    with (shared / "expected" / "genres_expected.csv").open(encoding="utf-8") as rows:
        return {
            (row["dataset"], row["model"]): float(row["value"]) / (100 if metric in PERCENT else 1)
            for row in csv.DictReader(rows)
            if row["metric"] == metric and source in row["source"]
        }


def disagreements(found: dict[Key, float], wanted: dict[Key, float], metric: str, decimals: int = 4) -> dict[Key, Any]:
    """Return what differs by more than half a unit of the last printed digit."""
    unit = 0.5 * 10.0**-decimals / (100 if metric in PERCENT else 1)
    return {
        key: (found[key], wanted[key]) for key in wanted.keys() & found.keys() if not _near(found, wanted, key, unit)
    }


def test_triples_per_document_of_every_stored_answer(shared: Path, outputs: dict[Key, dict[str, list[Any]]]) -> None:
    found = {key: triples_per_document(list(answers.values())).mean() for key, answers in outputs.items()}
    wanted = expected(shared, "#tri", "recomputed")
    assert disagreements(found, wanted, "#tri") == {}
    assert len(wanted.keys() & found.keys()) == 45


def test_tokens_per_triple_of_every_stored_answer(shared: Path, outputs: dict[Key, dict[str, list[Any]]]) -> None:
    count = lru_cache(None)(lambda text: len(tokenize(text, "3.9")))
    found = {
        key: tokens_per_triple(list(answers.values()), count, empty=0.0).mean() for key, answers in outputs.items()
    }
    wanted = expected(shared, "#tok", "nltk 3.9.2")
    assert disagreements(found, wanted, "#tok") == {}
    assert len(wanted.keys() & found.keys()) == 45


def test_factualness_of_every_stored_verdict(shared: Path, release: Path) -> None:
    found = {}
    for file in sorted((release / "stored_verdicts" / "factualness").glob("*.json")):
        verdicts = [[float(verdict) for verdict in row["results"]] for row in _read(file).values()]
        key = _key(file.stem) if "details" not in file.stem else (_sample(file.stem), "groundtruth")
        found[key] = np.mean(factualness(verdicts, empty=0.0))
    wanted = expected(shared, "FS", "recomputed")
    assert disagreements(found, wanted, "FS") == {}
    assert len(wanted.keys() & found.keys()) == 45


def test_granularity_of_every_stored_reply(shared: Path, release: Path) -> None:
    found = {}
    for file in sorted((release / "stored_verdicts" / "granularity").glob("*.json")):
        splits = [[count_pairs(reply) for reply in row.values()] for row in _read(file).values()]
        scores = granularity(splits, empty=math.nan)
        found[_key(file.stem)] = np.nanmean(scores) if splits else math.nan
    wanted = expected(shared, "GS", "recomputed")
    assert disagreements(found, wanted, "GS") == {}
    assert len(wanted.keys() & found.keys()) == 44  # all but DocRED's Galactica, which never answered


def test_completeness_of_every_stored_cosine(
    shared: Path, release: Path, outputs: dict[Key, dict[str, list[Any]]]
) -> None:
    found, averaged_over_gold = {}, {}
    for file in sorted((release / "stored_cosines").glob("*.json")):
        key = _key(f"{file.stem}_1")
        stored = _read(file)
        cosines = [
            np.array(list(stored[text].values())) if predicted and stored.get(text) else None
            for text, predicted in outputs[key].items()
        ]
        scores = completeness(cosines, 0.95)
        silent = np.array([not predicted for predicted in outputs[key].values()])
        found[key] = np.nanmean(np.where(silent, 0.0, scores))  # silence scores 0, with or without gold
        if key[0] != "cdr_rand_200":  # every document of the others has gold
            averaged_over_gold[key] = np.nan_to_num(scores).mean()
    assert disagreements(found, expected(shared, "CS", "official averaging"), "CS") == {}
    wanted = {key: value / 100 for key, value in expected(shared, "CS_fixed", "recomputed").items()}
    assert disagreements(averaged_over_gold, wanted, "CS") == {}
    assert len(wanted.keys() & averaged_over_gold.keys()) == 28


def test_hard_match_of_the_closed_semi_open_and_open_answers(
    shared: Path, release: Path, outputs: dict[Key, dict[str, list[Any]]]
) -> None:
    gold = _read(release / "inputs" / "cdr_processed.json")
    for row, metric in enumerate(("P", "R", "F1")):
        wanted = {key: value for key, value in expected(shared, metric, "recomputed").items() if key in outputs}
        found = {
            key: np.nanmean(
                hard_match(list(outputs[key].values()), [gold[t] for t in outputs[key]], empty=math.nan)[row]
            )
            for key in wanted
        }
        assert disagreements(found, wanted, metric, decimals=1) == {}
        assert len(wanted) == 3


def _key(stem: str) -> Key:
    """`cdr_rand_200_gpt-4_1` -> (`cdr_rand_200`, `gpt-4`)."""
    parts = stem.split("_")
    return "_".join(parts[:3]), "_".join(parts[3:-1])


def _sample(stem: str) -> str:
    name = stem.split("_")[0]
    return name + {"cdr": "_rand_200", "docred": "_rand_200", "wiki20m": "_rand_500", "wiki80": "_rand_800"}[name]


def _near(found: dict[Key, float], wanted: dict[Key, float], key: Key, unit: float) -> bool:
    return abs(found[key] - wanted[key]) <= unit * 1.0001


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
