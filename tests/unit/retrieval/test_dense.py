from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.protocols import ProcessGroup, Ranking
from kbbench_hf.retrieval import top_k as search_module
from kbbench_hf.retrieval.context import RetrieverContext, no_bar
from kbbench_hf.retrieval.dense import Dense
from kbbench_hf.retrieval.embedders import BLOCK_TEXTS, embed, folder_hash, folder_of, revision_of
from kbbench_hf.retrieval.retrievers import retriever
from kbbench_hf.retrieval.top_k import block_rows, search
from tests.tiny_encoder import tiny_encoder
from tests.unit.retrieval.hashing import HashingEmbedder
from tests.unit.retrieval.small_kb import small_kb

RNG = np.random.default_rng(0)
VECTORS = RNG.standard_normal((3000, 24), dtype=np.float32)
QUERIES = RNG.standard_normal((5, 24), dtype=np.float32)


def in_a_group(size: int, work: Callable[[ProcessGroup], Any]) -> list[Any]:
    """Run `work` in `size` threads that gather values from each other, as processes of a group do."""
    barrier, values = Barrier(size, timeout=60), [None] * size

    def gather(rank: int, value: Any) -> list[Any]:
        values[rank] = value
        barrier.wait()
        found = list(values)
        barrier.wait()
        return found

    shares = [ProcessGroup(rank, size, lambda value, rank=rank: gather(rank, value)) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, shares))


MADE_OF: dict[str, list[dict[str, Any]]] = {
    "dense": [{"kind": "embedder", "text": "named"}],
    "late": [{"kind": "tokens", "text": "named"}],
    "multi": [{"kind": "embedder", "text": "named", "chunk": [9, 4]}],
    "vss": [{"kind": "embedder", "text": "clean_compact with relations", "normalize": False}],
    "multi_vss": [
        {"kind": "embedder", "text": "clean_compact with relations", "normalize": False, **more}
        for more in ({}, {"recursive_chunks": [9, 4]})
    ],
}
"""Retriever -> what its vectors depend on besides model, length, batch and nodes, for each folder of its cache."""


@pytest.mark.parametrize("name", MADE_OF)
def test_vectors_are_looked_up_by_all_that_they_depend_on_and_nothing_else(name: str, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    kb, model = small_kb(), tiny_encoder(tmp_path / "m", ["bars are smelted"])
    chunks = ",chunk=9,overlap=4" if name.startswith("multi") else ""
    spec = f"{name}:{model}@batch=8,max_length=16{chunks}"
    context = RetrieverContext(kb, tmp_path / "cache")
    assert retriever(spec, context).search(["smelted bars"], 2).ids.shape == (1, 2)
    revision = f"{model}@{folder_hash(model)}"
    assert context.revisions == {str(model): revision}
    wanted = set()
    for each in MADE_OF[name]:
        own = {key: value for key, value in each.items() if key != "kind"}
        settings = {each["kind"]: revision, "max_length": 16, "batch": 8, "nodes": kb.hash, **own}
        wanted.add(folder_of(tmp_path / "cache", **settings))
    assert {*(tmp_path / "cache").iterdir()} == wanted


def test_a_model_whose_revision_is_not_known_is_refused() -> None:
    static = [SimpleNamespace()]  # a model of sentence-transformers without a transformer
    with pytest.raises(UsageError, match=r"revision of 'org/static' is not known.*Download the model to a folder"):
        revision_of("org/static", static)


@pytest.mark.parametrize("n_queries", [1, 3, 4, 5])
@pytest.mark.parametrize("k", [1, 10, 1000, 4000])
def test_exact_search_finds_what_sorting_all_products_finds(n_queries: int, k: int) -> None:
    products = QUERIES[:n_queries].astype(np.float64) @ VECTORS.astype(np.float64).T
    for row, line in zip(search(VECTORS, QUERIES[:n_queries], k).ids, products, strict=True):
        found = row[row >= 0]
        assert len({*found.tolist()}) == min(k, len(VECTORS))
        # In single precision two products may change places, if they are the same to seven digits.
        assert np.allclose(line[found], np.sort(line)[::-1][:k], rtol=0, atol=1e-5)


@pytest.mark.parametrize("faiss", [True, False])
def test_equal_vectors_are_found_in_order_of_row_however_many_tie_at_the_cut(
    faiss: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "_faiss_is_faster", lambda n: faiss)
    vectors = np.tile(np.eye(2, 4, dtype=np.float32), (1000, 1))  # rows 0, 2, 4 ... are equal
    found = search(vectors, np.array([[1, 0, 0, 0]], dtype=np.float32), 7)
    assert found.ids.tolist() == [[0, 2, 4, 6, 8, 10, 12]]


@pytest.mark.parametrize("n_queries", [1, 5])
@pytest.mark.parametrize("k", [10, 500])
def test_any_number_of_processes_finds_the_same_bytes(n_queries: int, k: int) -> None:
    alone = search(VECTORS, QUERIES[:n_queries], k)
    for size in (2, 3, 20):
        for found in in_a_group(size, lambda share: search(VECTORS, QUERIES[:n_queries], k, share)):
            assert found.ids.tobytes() == alone.ids.tobytes()
            assert found.scores.tobytes() == alone.scores.tobytes()


def test_any_number_of_threads_finds_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr("torch.get_num_threads", lambda threads=threads: threads)
        found.append(search(VECTORS, QUERIES, 50))
    assert len({ranking.scores.tobytes() + ranking.ids.tobytes() for ranking in found}) == 1


def test_blocks_depend_on_the_corpus_alone() -> None:
    assert [block_rows(n) for n in (0, 100, 8000, 129_375)] == [128, 128, 1000, 8192]


def test_shares_cover_everything_once() -> None:
    for size in range(1, 7):
        parts = [list(ProcessGroup(rank, size).shard(range(5))) for rank in range(size)]
        assert [row for part in parts for row in part] == list(range(5))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def _dense(texts: list[str], index: str = "exact") -> Dense:
    embedder = HashingEmbedder()
    return Dense(embedder.encode(texts), embedder, index)


def test_the_nearest_text_is_found_and_short_corpora_are_padded() -> None:
    found = _dense(["red apple", "green pear", "blue plum"]).search(["pear green", "plum"], 4)
    assert found.ids[:, 0].tolist() == [1, 2]
    assert found.ids[:, 3].tolist() == [-1, -1]
    assert found.scores[0, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("index", ["hnsw", "ivf", "sq8"])
def test_an_approximate_index_finds_most_of_the_nearest(index: str) -> None:
    class Given(HashingEmbedder):
        def encode_queries(self, texts: Any) -> Any:
            return QUERIES[: len(texts)]

    exact: Ranking = Dense(VECTORS, Given()).search(["a", "b"], 10)
    found = Dense(VECTORS, Given(), index).search(["a", "b"], 10)
    shared = [len(set(a) & set(b)) for a, b in zip(exact.ids.tolist(), found.ids.tolist(), strict=True)]
    assert min(shared) >= 2
    assert (np.diff(found.scores, axis=1) <= 0).all()


TEXTS = [f"text {number} " + "word " * (number % 7) for number in range(3 * BLOCK_TEXTS + 10)]


@pytest.mark.parametrize("size", [2, 3])
def test_any_number_of_processes_encodes_the_same_bytes(tmp_path: Path, size: int) -> None:
    alone = embed(lambda: TEXTS, HashingEmbedder(), tmp_path / "alone", ProcessGroup(), no_bar)
    in_a_group(size, lambda share: embed(lambda: TEXTS, HashingEmbedder(), tmp_path / "group", share, no_bar))
    files = [(tmp_path / name / "vectors.npy").read_bytes() for name in ("alone", "group")]
    assert files[0] == files[1]
    assert np.array_equal(alone, HashingEmbedder().encode(TEXTS))
    assert sorted(path.name for path in (tmp_path / "group").iterdir()) == ["vectors.npy"]


def test_an_interrupted_encoding_goes_on_at_the_block_it_had_reached(tmp_path: Path) -> None:
    class Interrupted(HashingEmbedder):
        def encode(self, texts: Any) -> Any:
            if len(self.encoded) >= 2 * BLOCK_TEXTS:
                raise KeyboardInterrupt
            return super().encode(texts)

    with pytest.raises(KeyboardInterrupt):
        embed(lambda: TEXTS, Interrupted(), tmp_path, ProcessGroup(), no_bar)
    second, third = HashingEmbedder(), HashingEmbedder()
    vectors = embed(lambda: TEXTS, second, tmp_path, ProcessGroup(), no_bar)
    assert len(second.encoded) == len(TEXTS) - 2 * BLOCK_TEXTS
    assert np.array_equal(vectors, HashingEmbedder().encode(TEXTS))
    embed(lambda: TEXTS, third, tmp_path, ProcessGroup(), no_bar)
    assert not third.encoded


def test_other_settings_have_another_folder(tmp_path: Path) -> None:
    made_of = {"embedder": "m@1", "text": "named", "nodes": "abc"}
    folders = {
        folder_of(tmp_path, **made_of | change)
        for change in ({}, {"embedder": "m@2"}, {"text": "text"}, {"nodes": "d"})
    }
    assert len(folders) == 4


def test_no_text_gives_no_vector(tmp_path: Path) -> None:
    assert embed(list, HashingEmbedder(), tmp_path, ProcessGroup(), no_bar).shape == (0, 64)
