"""Mined negatives are those that sentence-transformers' own miner finds with the same model and answers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import mine_hard_negatives

from kbbench_hf.training import encoders
from kbbench_hf.training.encoders import MaskedSimilarity, NegativeRefresh, TrainingPairs, best_wrong, rank_by_model
from kbbench_hf.training.questions import SplitQuestions, load_training_data
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


def test_wrong_nodes_that_are_lacking_are_padded_and_answers_are_never_among_them() -> None:
    ranked = np.array([[4, 2, 9], [1, 4, -1], [7, -1, -1]])
    wrong = best_wrong(ranked, [np.array([4]), np.array([2]), np.array([7])], 3)
    assert wrong.tolist() == [[2, 9, -1], [1, 4, -1], [-1, -1, -1]]


def test_negatives_are_mined_again_when_they_are_due_and_a_checkpoint_holds_them(tmp_path: Path) -> None:
    questions = SplitQuestions(["q", "r"], [np.array([0]), np.array([1, 2])])
    rankings = [np.array([[0, 3, 4], [2, 1, 5]]), np.array([[6, 0, 3], [5, 6, 1]])]

    def start() -> tuple[TrainingPairs, NegativeRefresh]:
        pairs = TrainingPairs(questions, lambda rows: [f"n{row}" for row in rows])
        pairs.replace_negatives(np.array([[3], [4], [5]]), 0)
        left = iter(rankings)
        draw = lambda wrong, version: wrong[pairs.question, :1] + 10 * version  # noqa: E731
        return pairs, NegativeRefresh(pairs, lambda model: next(left), draw, every=2, depth=2)

    pairs, refresh = start()
    arguments = SimpleNamespace(save_steps=4, output_dir=str(tmp_path))
    negatives = {}
    for step in range(1, 6):
        state = SimpleNamespace(global_step=step, is_world_process_zero=True)
        refresh.on_step_end(arguments, state, None)
        negatives[step] = (pairs.version, pairs.negatives.tolist())
    drawn = (1, [[13], [15], [15]])  # the best wrong node of each question; step 4 has a checkpoint, so step 5 mines
    assert negatives == {1: (0, [[3], [4], [5]]), 2: drawn, 3: drawn, 4: drawn, 5: (2, [[26], [25], [25]])}
    # the ranks 2, 4 (absent) and 3 of [3], [4], [5]; the first and the last are among the two best wrong nodes
    assert refresh.log[0] == {
        "step": 2,
        "version": 1,
        "median_rank_before": 3,
        "share_still_hard": pytest.approx(2 / 3),
    }
    assert pairs.render({"label": [0, 2]}) == {
        "anchor": ["q", "r"],
        "positive": ["n0", "n2"],
        "negative_1": ["n26", "n25"],
        "label": [6, 8],
    }
    (tmp_path / "checkpoint-5").mkdir()
    refresh.on_save(arguments, state, None)
    resumed_pairs, resumed = start()
    resumed.resume(tmp_path / "checkpoint-5")
    assert (resumed_pairs.version, resumed_pairs.negatives.tolist()) == negatives[5]
    assert resumed.log == refresh.log
    state.global_step = 6  # the next is due at 7
    resumed.on_step_end(arguments, state, None)
    assert resumed_pairs.version == 2


@pytest.mark.parametrize("rank", [0, 1])
def test_in_a_group_each_process_masks_its_questions_among_the_documents_of_all(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = torch.tensor([[3, 4], [7, 8]])

    def all_gather(parts: list[torch.Tensor], own: torch.Tensor) -> None:
        assert own.tolist() == labels[rank].tolist()
        for part, theirs in zip(parts, labels, strict=True):
            part.copy_(theirs)

    group: dict[str, Any] = {"get_world_size": lambda: 2, "get_rank": lambda: rank, "all_gather": all_gather}
    monkeypatch.setattr(encoders, "distributed", SimpleNamespace(is_initialized=lambda: True, **group))
    known = lambda all_labels: np.add.outer(all_labels, all_labels) == 11  # noqa: E731  # 3 + 8 and 4 + 7
    masked = MaskedSimilarity(lambda queries, documents: torch.zeros(len(queries), 4), known, gather=True)
    masked.begin(labels[rank], 1)
    scores = torch.cat([masked(torch.zeros(1, 1), torch.zeros(4, 1)) for _ in range(2)])
    inf = float("inf")
    assert scores.tolist() == ([[0, 0, 0, -inf], [0, 0, -inf, 0]] if rank == 0 else [[0, -inf, 0, 0], [-inf, 0, 0, 0]])
