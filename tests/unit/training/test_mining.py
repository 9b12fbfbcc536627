"""Mined negatives are those that sentence-transformers' own miner finds with the same model and answers."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import mine_hard_negatives

from kbbench_hf.training.encoders import best_wrong, rank_by_model
from kbbench_hf.training.questions import load_training_data
from tests.tiny_encoder import tiny_encoder
from tests.unit.training.worlds import build_world

N = 24


def test_mined_negatives_are_those_of_the_librarys_miner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    words = [f"w{n}" for n in range(40)]
    nodes = [(f"n{n}", "thing", " ".join(rng.permutation(words)[:4])) for n in range(N)]
    rows = [
        (
            " ".join(rng.permutation(words)[:5]),
            [f"n{n}" for n in rng.choice(N, rng.integers(1, 4), replace=False)],
            split,
        )
        for split in ["train"] * 12 + ["validation", "test"]
    ]
    monkeypatch.chdir(tmp_path)
    build_world(tmp_path, "words", nodes, [("n0", "near", "n1")], rows)
    model = SentenceTransformer(str(tiny_encoder(tmp_path / "encoder", [*words, "name type thing"])), device="cpu")
    data = load_training_data("words")
    ours = best_wrong(rank_by_model(model, data, N), data.train.answers, 5)
    texts = data.texts(np.arange(N))
    pairs = [
        {"anchor": question, "positive": texts[answer]}
        for question, answers in zip(data.train.texts, data.train.answers, strict=True)
        for answer in answers
    ]
    mined = mine_hard_negatives(
        Dataset.from_list(pairs), model, corpus=texts, num_negatives=5, output_format="n-tuple", verbose=False
    )
    theirs = {row["anchor"]: [row[f"negative_{n}"] for n in range(1, 6)] for row in mined.to_list()}
    assert theirs == {
        question: [texts[node] for node in wrong] for question, wrong in zip(data.train.texts, ours, strict=True)
    }
