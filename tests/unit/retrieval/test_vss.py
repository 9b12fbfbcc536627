"""VSS and Multi-VSS against plain loops over what the paper describes."""

from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.retrieval.context import RetrieverContext, RunQuery
from kbbench_hf.retrieval.dense import Dense
from kbbench_hf.retrieval.retrievers import retriever
from kbbench_hf.retrieval.vss import ChunkVectors, MultiVSS, PrecomputedQueries, aggregate, recursive_chunks
from tests.unit.retrieval.hashing import HashingEmbedder
from tests.unit.retrieval.small_kb import small_kb
from tests.unit.retrieval.test_dense import in_a_group

RNG = np.random.default_rng(3)
NODES = [[" ".join(RNG.choice(list("abcdefgh"), 5)) for _ in range(n)] for n in RNG.integers(1, 7, 200)]
QUERIES = ["a b c", "h", "d e f g"]


def multi(folder: Path, name: str, depth: int = 50, **how: object) -> MultiVSS:
    embedder = HashingEmbedder()
    whole = embedder.encode([" ".join(chunks) for chunks in NODES])
    vectors = ChunkVectors(lambda rows: [NODES[row] for row in rows], embedder, folder, **how)  # type: ignore[arg-type]
    return MultiVSS(Dense(whole, embedder), vectors, embedder, aggregate(name), depth)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["max", "avg", "top1_avg", "top3_avg"])
def test_the_first_stage_is_ordered_by_what_the_best_chunks_score(name: str, tmp_path: Path) -> None:
    found = multi(tmp_path, name).search(QUERIES, 50)
    embedder = HashingEmbedder()
    first = Dense(embedder.encode([" ".join(chunks) for chunks in NODES]), embedder).search(QUERIES, 50).ids
    for query, ids, row, scores in zip(QUERIES, first, found.ids, found.scores, strict=True):
        (asked,) = embedder.encode([query])
        expected = {}
        for node in ids.tolist():
            of_chunks = sorted((float(vector @ asked) for vector in embedder.encode(NODES[node])), reverse=True)
            counted = {"max": of_chunks[:1], "avg": of_chunks, "top1_avg": of_chunks[:1], "top3_avg": of_chunks[:3]}
            expected[node] = sum(counted[name]) / len(counted[name])
        assert row.tolist() and set(row.tolist()) == set(ids.tolist())
        assert scores == pytest.approx([expected[node] for node in row.tolist()], abs=1e-6)
        assert (np.diff(scores) <= 0).all()


def test_no_node_beyond_the_first_stage_is_ranked(tmp_path: Path) -> None:
    assert (multi(tmp_path, "max", depth=7).search(QUERIES, 100).ids >= 0).sum(axis=1).tolist() == [7, 7, 7]


def test_chunks_are_encoded_once(tmp_path: Path) -> None:
    one = multi(tmp_path, "max")
    found = one.search(QUERIES, 5)
    again = multi(tmp_path, "max")
    assert again.search(QUERIES, 5).ids.tolist() == found.ids.tolist()
    assert again.embedder.encoded[len(NODES) :] == QUERIES * 2  # type: ignore[attr-defined]


def test_any_number_of_processes_finds_the_same(tmp_path: Path) -> None:
    alone = multi(tmp_path / "alone", "top3_avg").search(QUERIES, 9)
    for found in in_a_group(3, lambda share: multi(tmp_path / "group", "top3_avg", processes=share).search(QUERIES, 9)):
        assert found.ids.tolist() == alone.ids.tolist() and found.scores.tolist() == alone.scores.tolist()


@pytest.mark.parametrize(
    ("options", "size", "overlap", "depth"),
    [("", 256, 51, 50), ("@chunk=16,depth=4", 16, 3, 4), ("@chunk=16,overlap=8,aggregate=max", 16, 8, 50)],
)
def test_a_built_one_cuts_texts_as_it_is_asked(
    options: str, size: int, overlap: int, depth: int, tmp_path: Path
) -> None:
    kb, made = small_kb(), list[tuple[str, bool]]()

    def embedder(name: str, normalize: bool = True, **_: object) -> HashingEmbedder:
        made.append((name, normalize))
        return HashingEmbedder()

    context = RetrieverContext(kb, tmp_path, embedder=embedder)  # type: ignore[arg-type]
    built = retriever(f"multi_vss:org/m{options}{',' if options else '@'}text=text", context)
    assert isinstance(built, MultiVSS) and made == [("org/m", False)]
    texts = [text or name for text, name in zip(kb.texts(), kb.names(), strict=True)]
    assert built.vectors.chunks(np.arange(9)) == [recursive_chunks(text, size, overlap) for text in texts]
    scores = np.array([0.5, 0.2, 0.8, 0.1])
    assert built.depth == depth and built.aggregate(scores) == pytest.approx(0.8 if "max" in options else 0.5)
    assert (built.search(["bars are smelted"], 9).ids >= 0).sum() == min(depth, 9)
    assert built.search(["bars are smelted"], 1).ids.tolist() == [[0]]


@pytest.mark.parametrize("name", ["mean", "top0_avg", "top_avg", "top3"])
def test_other_aggregates_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected max, avg or topk_avg"):
        aggregate(name)


@pytest.fixture
def shared_vectors(tmp_path: Path) -> Path:
    """Vectors as upstream shares them: dictionaries of rows that are views of one tensor, in files of torch."""
    import torch

    folder = tmp_path / "emb" / "small" / "ada"
    for part, name, vectors in (
        ("doc", "candidate_emb_dict.pt", torch.arange(27.0).reshape(9, 3)),
        ("query", "query_emb_dict.pt", torch.tensor([[1.0, 0, 0], [0, 0, -2]])),
        ("query_human_generated_eval", "query_emb_dict.pt", torch.tensor([[0, -1.0, 0]])),
    ):
        (folder / part).mkdir(parents=True)
        torch.save({row: vector.view(1, -1) for row, vector in enumerate(vectors)}, folder / part / name)
    return folder


ASKED = [RunQuery("written", 1, "test"), RunQuery("of a person", 0, "human"), RunQuery("new", 7, "test")]


def test_vectors_that_others_computed_are_read_by_the_ids_of_nodes_and_questions(
    shared_vectors: Path, tmp_path: Path
) -> None:
    place = RetrieverContext(small_kb(), tmp_path / "cache", questions=ASKED)
    for _ in range(2):  # from the file, then from the cache
        found = retriever(f"vss:{shared_vectors}", place).search(["written", "of a person"], 2)
        assert found.ids.tolist() == [[0, 1], [0, 1]]
        assert found.scores.tolist() == [[-4.0, -10.0], [-1.0, -4.0]]
    few = RetrieverContext(small_kb(), tmp_path / "cache", np.array([3, 8]), questions=ASKED)
    assert retriever(f"vss:{shared_vectors}", few).search(["written"], 1).ids.tolist() == [[3]]


def test_what_has_no_vector_is_named(shared_vectors: Path, tmp_path: Path) -> None:
    place = RetrieverContext(small_kb(), tmp_path / "cache", questions=ASKED)
    built = retriever(f"vss:{shared_vectors}", place)
    with pytest.raises(DataError, match="no vector for 1 of 1 questions: 7"):
        built.search(["new"], 2)
    with pytest.raises(UsageError, match="'unheard' is not a question of the benchmark"):
        built.search(["unheard"], 2)
    with pytest.raises(UsageError, match="has the documents doc"):
        retriever(f"vss:{shared_vectors}@documents=doc_no_rel", place)
    with pytest.raises(UsageError, match="Name the model"):
        retriever(f"multi_vss:{shared_vectors}", place)
    (shared_vectors / "query_human_generated_eval" / "query_emb_dict.pt").unlink()
    with pytest.raises(DataError, match="expected one, with the vectors of the questions of split 'human'"):
        PrecomputedQueries(shared_vectors, {"of a person": ASKED[1]}).encode_queries(["of a person"])


def test_a_file_that_would_run_code_is_refused(shared_vectors: Path, tmp_path: Path) -> None:
    import os
    import pickle

    import torch

    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(tmp_path / "was_here"),)

    file = shared_vectors / "doc" / "candidate_emb_dict.pt"
    for write in (lambda: torch.save({0: Evil()}, file), lambda: file.write_bytes(pickle.dumps({0: Evil()}))):
        write()
        with pytest.raises(DataError, match=r"candidate_emb_dict.pt cannot be read"):
            retriever(f"vss:{shared_vectors}", RetrieverContext(small_kb(), tmp_path / "cache"))
    assert not (tmp_path / "was_here").exists()
