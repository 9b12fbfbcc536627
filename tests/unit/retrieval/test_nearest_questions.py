from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.retrieval.bm25 import BM25
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.dense import Dense, NearestQuestions
from kbbench_hf.retrieval.retrievers import retriever
from tests.unit.retrieval.hashing import HashingEmbedder
from tests.unit.retrieval.small_kb import small_kb

TRAINING = [("iron from magnetite", [6]), ("lead from galena", [7, 8]), ("silver from galena", [8, 8])]


def _model(k: int) -> NearestQuestions:
    questions = [question for question, _ in TRAINING]
    embedder = HashingEmbedder()
    answers = [np.array(rows) for _, rows in TRAINING]
    return NearestQuestions(questions, answers, Dense(embedder.encode(questions), embedder), k)


def test_answers_of_similar_questions_add_up_and_the_rest_is_not_ranked() -> None:
    # cosines with "tin from galena": 1/3, 2/3, 2/3; node 8 answers two of them, once each
    found = _model(3).search(["tin from galena"], 4)
    assert found.ids.tolist() == [[8, 7, 6, -1]]
    assert found.scores[0, :3] == pytest.approx([4 / 3, 2 / 3, 1 / 3])


def test_only_the_nearest_are_asked() -> None:
    assert _model(1).search(["tin from galena"], 2).ids.tolist() == [[7, 8]]


def test_a_training_question_does_not_answer_itself() -> None:
    assert _model(1).search(["iron from magnetite"], 1).ids[0, 0] in {7, 8}


def test_questions_without_a_word_in_common_give_no_answer() -> None:
    model = NearestQuestions(["iron ore"], [np.array([6])], BM25(["iron ore"]))
    assert model.search(["zinc"], 2).ids.tolist() == [[-1, -1]]


def test_it_is_built_from_the_training_questions_of_a_run(tmp_path: Path) -> None:
    place = RetrieverContext(small_kb(), tmp_path, training=TRAINING)
    assert retriever("knn@k=2", place).search(["silver of galena"], 1).ids.tolist() == [[8]]
    with pytest.raises(UsageError, match="this run has none"):
        retriever("knn", RetrieverContext(small_kb(), tmp_path))


def test_with_a_model_it_compares_the_vectors_of_questions(tmp_path: Path) -> None:
    context = RetrieverContext(small_kb(), tmp_path, training=TRAINING, embedder=lambda *_, **__: HashingEmbedder())  # type: ignore[arg-type]
    assert retriever("knn:m@k=2", context).search(["silver of galena"], 1).ids.tolist() == [[8]]
    assert context.revisions == {"m": "hashing@1"}
