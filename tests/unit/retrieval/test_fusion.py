from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.protocols import Ranking
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.fusion import Fusion, min_max, reciprocal_rank
from kbbench_hf.retrieval.retrievers import retriever
from kbbench_hf.training.fusion import learn_weights
from tests.unit.retrieval.small_kb import small_kb


class Fixed:
    """Answers every query with the same ranking."""

    def __init__(self, ids: Sequence[int], scores: Sequence[float]) -> None:
        self.ids, self.scores = ids, scores

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        short = max(0, top_k - len(self.ids))
        ids = np.array([[*self.ids[:top_k], *[-1] * short]] * len(queries))
        return Ranking(ids, np.array([[*self.scores[:top_k], *[-np.inf] * short]] * len(queries)))


ONE, OTHER = Fixed([5, 2, 9], [8.0, 6.0, 4.0]), Fixed([2, 7], [0.3, 0.1])


def test_reciprocal_ranks_add_up() -> None:
    # 2: 1/62 + 1/61; 5: 1/61; 7: 1/62; 9: 1/63
    found = Fusion([ONE, OTHER], reciprocal_rank).search(["q"], 5)
    assert found.ids.tolist() == [[2, 5, 7, 9, -1]]
    assert found.scores[0, :4] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63])


def test_a_question_without_an_answer_among_the_nodes_changes_no_learned_weight() -> None:
    credits = np.random.default_rng(0).random((4, 6, 2), np.float32)
    right = np.zeros((4, 6), bool)
    right[:3, 0] = True
    assert learn_weights(credits, right).tolist() == learn_weights(credits[:3], right[:3]).tolist()


def test_weighted_scores_add_up_after_stretching() -> None:
    # stretched: 5, 2, 9 -> 1, 0.5, 0 and 2, 7 -> 1, 0; weights 0.4 and 0.6: 2 = 0.2 + 0.6, 5 = 0.4
    found = Fusion([ONE, OTHER], min_max, [0.4, 0.6]).search(["q", "p"], 4)
    assert found.ids.tolist() == [[2, 5, 7, 9]] * 2
    assert found.scores[1] == pytest.approx([0.8, 0.4, 0.0, 0.0])


def test_equal_credit_falls_in_order_of_row() -> None:
    assert Fusion([Fixed([3], [1.0]), Fixed([1], [1.0])], reciprocal_rank).search(["q"], 2).ids.tolist() == [[1, 3]]


def test_only_the_given_depth_of_each_ranking_counts() -> None:
    assert Fusion([ONE, OTHER], reciprocal_rank, depth=1).search(["q"], 1).ids.tolist() == [[2]]
    assert Fusion([ONE, OTHER], reciprocal_rank, depth=1).search(["q"], 3).ids[0, 0] == 2


def test_a_row_of_equal_scores_or_none_stretches_to_zero() -> None:
    ranking = Ranking(np.array([[1, 2], [-1, -1]]), np.array([[0.5, 0.5], [-np.inf, -np.inf]]))
    assert not min_max(ranking).any()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rrf(bm25)", "fuses 1 models; expected two or more"),
        ("rrf", "fuses 0 models"),
        ("weighted(bm25,bm25)@weights=1", "1 weights for 2 models"),
        ("weighted(bm25,bm25)@weights=0/0", "not all 0"),
        ("weighted(bm25,bm25)@weights=nan/1", "from 0 up"),
        ("rrf(bm25,bm26)", "Unknown retriever 'bm26'. Did you mean 'bm25'?"),
        ("graph(bm25,bm25)", "starts from 2 models; expected one"),
        ("bm25@text=txt", "Unknown text 'txt'. Did you mean 'text'?"),
        ("dense", "names no embedding model"),
    ],
)
def test_a_model_that_cannot_be_built_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        retriever(name, RetrieverContext(small_kb(), tmp_path))
    assert message in str(error.value)


def test_a_fusion_of_one_model_with_itself_ranks_as_the_model(tmp_path: Path) -> None:
    place = RetrieverContext(small_kb(), tmp_path)
    alone = retriever("bm25", place).search(["smelting of iron"], 5)
    assert retriever("rrf(bm25,bm25)", place).search(["smelting of iron"], 5).ids.tolist() == alone.ids.tolist()


def test_candidates_alone_are_ranked_and_keep_their_rows(tmp_path: Path) -> None:
    rows = np.array([1, 3, 6])
    for name in ("bm25", "rrf(bm25,bm25)", "graph:bm25"):
        found = retriever(name, RetrieverContext(small_kb(), tmp_path, candidates=rows)).search(["iron"], 5).ids[0]
        assert sorted(found[found >= 0].tolist()) == rows.tolist()
