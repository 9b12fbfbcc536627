from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.protocols import Ranking
from kbbench_hf.retrieval.top_k import SAMPLED, best, merge, pad, top_k_by_query

SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=30)


def _ranked(scores: list[float], k: int) -> list[int]:
    return sorted(range(len(scores)), key=lambda position: (-scores[position], position))[:k]


@given(SCORES, st.integers(1, 40))
def test_the_best_are_by_score_then_by_position(scores: list[float], k: int) -> None:
    assert best(np.array(scores), k).tolist() == _ranked(scores, k)


@given(SCORES, st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_best_are_the_same_in_any_order(scores: list[float], k: int, random: Random) -> None:
    ids = np.array(random.sample(range(len(scores)), len(scores)))
    assert ids[best(np.array(scores)[ids], k, ids)].tolist() == _ranked(scores, k)


@given(
    st.sampled_from(["at sampled places", "elsewhere", "nowhere", "anywhere"]), st.integers(1, 900), st.integers(0, 9)
)
def test_the_best_of_many_are_the_best_wherever_they_stand(good: str, k: int, seed: int) -> None:
    scores = np.random.default_rng(seed).integers(0, 300, 5000).astype(float)
    sampled = np.arange(len(scores)) % SAMPLED == 0
    places = {
        "at sampled places": sampled,
        "elsewhere": ~sampled,
        "nowhere": np.zeros_like(sampled),
        "anywhere": np.ones_like(sampled),
    }
    scores[~places[good]] = -np.inf
    assert best(scores, k).tolist() == _ranked(scores.tolist(), k)


@given(SCORES, st.integers(1, 40), st.integers(1, 5))
def test_rankings_of_parts_merge_to_the_ranking_of_the_whole(scores: list[float], k: int, n_parts: int) -> None:
    parts = []
    for rows in np.array_split(np.arange(len(scores)), n_parts):
        own = np.array(scores)[rows]
        found = best(own, k)
        parts.append(pad([(rows[found], own[found])], k))
    found = merge(parts, k).ids[0]
    assert found[found >= 0].tolist() == _ranked(scores, k)


def test_short_rows_end_in_padding() -> None:
    found = merge([Ranking(np.array([[3]]), np.array([[0.5]]))], 3)
    assert found.ids.tolist() == [[3, -1, -1]]
    assert found.scores.tolist() == [[0.5, -np.inf, -np.inf]]


def test_candidates_in_any_order_are_grouped_by_query() -> None:
    rows, ids, scores = np.array([1, 0, 1, 1]), np.array([4, 9, 2, 3]), np.array([0.5, 0.1, 0.5, 0.7])
    assert top_k_by_query(rows, ids, scores, 3, 2).ids.tolist() == [[9, -1], [3, 2], [-1, -1]]
