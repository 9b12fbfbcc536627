import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbbench_hf.models.bm25 import BM25

TEXTS = st.lists(
    st.lists(st.sampled_from("red green blue apple pear plum".split()), max_size=6).map(" ".join),
    min_size=2,
    max_size=12,
)


def test_a_score_is_lucenes_formula() -> None:
    # three texts of 2, 2 and 5 words (mean 3); "pear" in two of them, once each, k1 = 1.5, b = 0.75
    # idf = ln(1 + (3 - 2 + 0.5) / (2 + 0.5)); text 1: tf part 1 / (1 + 1.5 (0.25 + 0.75 * 2/3)); text 2: 5/3 instead
    found = BM25(["red apple", "green pear", "pear plum fig lime kiwi"]).search(["pear"], 3)
    idf = math.log(1 + 1.5 / 2.5)
    short, long = (idf / (1 + 1.5 * (0.25 + 0.75 * words / 3)) for words in (2, 5))
    assert found.ids.tolist() == [[1, 2, 0]]
    assert found.scores[0] == pytest.approx([short, long, 0.0])


def test_nodes_of_equal_text_keep_their_places_side_by_side() -> None:
    assert BM25(["plum", "pear", "plum", "pear", "pear"]).search(["pear"], 5).ids.tolist() == [[1, 3, 4, 0, 2]]


def test_a_word_asked_twice_counts_twice() -> None:
    model = BM25(["red apple", "green pear"])
    once, twice = (model.search([query], 1).scores[0, 0] for query in ("pear", "pear pear"))
    assert twice == pytest.approx(2 * once)


def test_a_query_of_unknown_words_gets_the_first_nodes_at_zero() -> None:
    found = BM25(["red apple", "green pear"]).search(["", "the", "zebra"], 2)
    assert found.ids.tolist() == [[0, 1]] * 3
    assert not found.scores.any()


def test_texts_without_words_can_be_searched() -> None:
    assert BM25(["", "the"]).search(["pear"], 3).ids.tolist() == [[0, 1, -1]]


def test_no_query_gives_no_row() -> None:
    assert BM25(["red"]).search([], 4).ids.shape == (0, 4)


@settings(max_examples=40)
@given(
    TEXTS, st.lists(st.sampled_from("red green blue apple pear plum fig".split()), min_size=1, max_size=4).map(" ".join)
)
def test_scores_are_those_of_bm25s(texts: list[str], query: str) -> None:
    import bm25s

    if not any(texts):
        return
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    tokens = bm25s.tokenize([query], stopwords="en", return_ids=False, show_progress=False)
    _, expected = index.retrieve(tokens, k=len(texts), show_progress=False)
    assert np.array_equal(BM25(texts).search([query], len(texts)).scores, expected.astype(np.float64))
