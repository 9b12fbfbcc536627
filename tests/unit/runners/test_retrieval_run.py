"""A retrieval benchmark from questions to scores: defaults, folders, and what is refused first."""

import json
from pathlib import Path

import pytest

from kbbench_hf.building.own_kb import build_own_knowledge_base
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.retrieval.reranker import RERANK_METHODS
from kbbench_hf.runners.ranking import Latency
from kbbench_hf.runners.rerank import rerank
from kbbench_hf.runners.retrieval_run import knowledge_base, rank
from kbbench_hf.runners.run import finished_run
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.score import score
from tests.servers.scripted import MODEL, ScriptedServer


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]


def test_every_candidate_of_a_small_knowledge_base_is_ranked_so_that_no_rank_is_left_open(in_tmp):
    done = finished_run("mini-stark", "bm25", limit=5, show=False)
    assert done.folder.parent == Path("kbbench-runs/mini-stark")
    assert {len(line["ids"]) for line in lines(done.folder)} == {len(knowledge_base(done.task))}
    assert done.result.scores["mrr"].n_unscored == 0
    assert json.loads((done.folder / "result.json").read_text(encoding="utf-8")) == done.result.to_dict()


def test_of_more_entries_than_fit_a_run_a_hundred_per_question_are_ranked(in_tmp, monkeypatch):
    monkeypatch.setattr("kbbench_hf.runners.retrieval_run.MOST_RANKED", 281 * 5 - 1)
    done = finished_run("mini-stark", "bm25", limit=5, show=False)
    assert {len(line["ids"]) for line in lines(done.folder)} == {100}


def test_a_model_that_cannot_be_built_leaves_no_folder_and_no_file_of_ones_own_is_lost(in_tmp):
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("keep")
    for out in (None, Path("new"), Path("mine")):
        with pytest.raises(UsageError, match="Unknown text"):
            finished_run("mini-stark", "bm25@text=txt", out=out, show=False)
    assert not Path("new").exists() and not list(Path("kbbench-runs").glob("*/*"))
    assert Path("mine/notes.txt").read_text() == "keep"


def test_stored_predictions_give_the_same_result_without_the_model(in_tmp):
    for mode in ("reference", "standard"):
        done = finished_run("mini-stark", "bm25", mode=mode, out=Path("run"), show=False)
        assert score(done.folder, "mini-stark", mode=mode).to_dict() == done.result.to_dict()


def test_the_top_k_asked_for_is_kept_and_makes_another_run(in_tmp):
    asked = load_examples("mini-stark", limit=3)
    ten, all_of_them = (rank(asked, "bm25", top_k=top_k, show=False).folder for top_k in (10, None))
    assert ten != all_of_them
    assert [line["ids"] for line in lines(ten)] == [line["ids"][:10] for line in lines(all_of_them)]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("bm52", "Did you mean 'bm25'"),
        ("rrf(bm25,graph:bm52)", "Did you mean 'bm25'"),
        ("knn", "mini-stark has no split 'train'"),
        ("bm25(", "Did you mean bm25"),
    ],
)
def test_an_impossible_model_is_refused_and_nothing_is_written(in_tmp, model, message):
    with pytest.raises(UsageError, match=message):
        rank(load_examples("mini-stark", limit=1), model, show=False)
    assert not list(in_tmp.iterdir())


def test_a_model_that_learns_from_questions_is_given_the_training_split(in_tmp):
    Path("n.csv").write_text("id,type,name,text\n1,dish,Soup,hot\n2,dish,Jelly,cold\n")
    Path("e.csv").write_text("head,relation,tail\n1,resembles,2\n")
    Path("q.csv").write_text('id,query,answer_ids,split\n1,something wobbly,"[2]",train\n2,wobbly please,"[2]",test\n')
    build_own_knowledge_base("my-kb", Path("n.csv"), Path("e.csv"), Path("q.csv"), Path("kbbench/my-kb"))
    run = rank(load_examples("my-kb", split="test"), "knn", Path("run"), show=False)
    assert lines(run.folder)[0]["ids"][0] == 2  # "wobbly" stands in no document


def test_a_started_reranking_keeps_its_prompt_and_says_so(in_tmp, capsys):
    asked = load_examples("mini-stark", limit=2)
    first = rank(asked, "bm25", in_tmp / "first", top_k=5, show=False).folder
    how = {"depth": 3, "show": False, "canary": False}
    with ScriptedServer(answer=lambda payload: "0.5") as server:
        folder = rerank(asked, first, Endpoint(server.url, MODEL), MODEL, **how, wording="clean-1").folder
        n_sent, run = len(server.payloads), read_json(folder / "run.json")
        for name in ("wording", "prompt_sha256"):  # as an earlier version wrote it
            run["settings"].pop(name)
        run["settings"]["wording"] = "clean"
        (folder / "run.json").write_text(json.dumps(run))
        rerank(asked, first, Endpoint(server.url, MODEL), MODEL, **how, folder=folder)
        assert len(server.payloads) == n_sent
        assert "'clean-1' today, and keeps it" in " ".join(capsys.readouterr().err.split())
        anew = rerank(asked, first, Endpoint(server.url, MODEL), MODEL, **how, folder=in_tmp / "anew").folder
        assert "JSON only" in server.payloads[-1]["messages"][0]["content"]
    assert read_json(anew / "run.json")["settings"]["prompt_sha256"] == RERANK_METHODS["clean"].prompt_sha256


def test_reranking_goes_into_a_folder_of_its_own_and_leaves_the_first_run_alone(in_tmp):
    asked = load_examples("mini-stark", limit=2)
    first = rank(asked, "bm25", Path("run"), show=False).folder
    before = (first / "predictions.jsonl").read_bytes()
    with ScriptedServer(answer=lambda payload: "0.9") as server:
        how = {"depth": 3, "show": False, "canary": False}
        done = rerank(asked, first, Endpoint(server.url, MODEL), f"org/{MODEL}", **how)
    assert done.folder == Path(f"run-org-{MODEL}-3")
    assert (done.summary.n_answered, done.n_unread) == (6, 0)
    assert (first / "predictions.jsonl").read_bytes() == before
    settings = json.loads((done.folder / "run.json").read_text(encoding="utf-8"))["settings"]
    assert (settings["rerank"], settings["depth"], settings["model"]) == (f"org/{MODEL}", 3, "bm25")


def test_latency_is_told_in_milliseconds_and_not_at_all_where_there_is_none():
    assert str(Latency(0.0123, 0.5, 100)) == "latency per query: p50 12.3 ms, p95 500.0 ms (over 100 queries)"
    assert str(Latency(None, None, 0)) == ""
