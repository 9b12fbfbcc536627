from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.protocols import ProcessGroup
from kbbench_hf.retrieval.dense import MultiVector, aggregate_chunks, split_into_chunks
from tests.unit.retrieval.hashing import HashingEmbedder
from tests.unit.retrieval.test_dense import in_a_group

WORDS = st.lists(st.text("abcd", min_size=1, max_size=8), max_size=30, unique=True)


@given(WORDS, st.integers(1, 20), st.integers(1, 20))
def test_chunks_hold_every_word_and_are_no_longer_than_asked(words: list[str], size: int, overlap: int) -> None:
    chunks = split_into_chunks(" ".join(words), size, overlap)
    assert all(len(chunk) <= size or " " not in chunk for chunk in chunks)
    assert list(dict.fromkeys(word for chunk in chunks for word in chunk.split())) == words


def test_a_chunk_repeats_the_end_of_the_one_before() -> None:
    assert split_into_chunks("aa bb cc dd ee", 8, 5) == ["aa bb cc", "bb cc dd", "cc dd ee"]


def test_an_empty_text_is_one_empty_chunk() -> None:
    assert split_into_chunks("", 5, 1) == [""]


@pytest.mark.parametrize("aggregate", ["max", "mean", "top3"])
@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_nodes_score_what_a_loop_over_their_chunks_gives(aggregate: str, counts: list[int]) -> None:
    offsets = np.cumsum([0, *counts])
    scores = np.random.default_rng(sum(counts)).standard_normal((2, offsets[-1]), dtype=np.float32)
    expected = []
    for line in scores:
        parts = [sorted(line[start:stop].tolist()) for start, stop in pairwise(offsets)]
        means = {"max": [part[-1:] for part in parts], "mean": parts, "top3": [part[-3:] for part in parts]}
        expected.append([sum(part) / len(part) for part in means[aggregate]])
    assert aggregate_chunks(scores, offsets, aggregate) == pytest.approx(np.array(expected), abs=1e-6)


def _model(aggregate: str = "max", processes: ProcessGroup | None = None) -> MultiVector:
    nodes = [[f"filler {node}", "pear"] if node == 777 else [f"apple {node}"] * (node % 3 + 1) for node in range(900)]
    embedder = HashingEmbedder()
    offsets = np.cumsum([0, *map(len, nodes)])
    vectors = embedder.encode([text for node in nodes for text in node])
    return MultiVector(vectors, offsets, embedder, aggregate, processes or ProcessGroup())  # type: ignore[arg-type]


def test_one_matching_chunk_is_enough_for_the_maximum() -> None:
    found = _model().search(["pear"], 3)
    assert (found.ids[0, 0], found.scores[0, 0]) == (777, pytest.approx(1.0))


def test_any_number_of_processes_finds_the_same_bytes() -> None:
    alone = _model().search(["pear", "apple 5"], 900)
    assert sorted(alone.ids[0].tolist()) == list(range(900))
    for found in in_a_group(3, lambda share: _model(processes=share).search(["pear", "apple 5"], 900)):
        assert found.scores.tobytes() == alone.scores.tobytes()
        assert found.ids.tobytes() == alone.ids.tobytes()
