"""Rankings handed to other evaluators: on our files they find our figures, ties and all, to the last digit."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.cli import main
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.ranking import measure
from kbbench_hf.metrics.ranks import IdLists, locate, rank
from kbbench_hf.reports.exports import RANKING_FILES, trec_files

KS = (1, 5, 10, 20, 100)
OURS = ["mrr", "map", "r_precision", *(f"{name}_at_{k}" for name in ("hit", "recall", "precision", "ndcg") for k in KS)]


@pytest.fixture(scope="module")
def tied():
    """300 rankings by scores of which most are tied, their gold, and our figures in mode standard, query by query."""
    generator = np.random.default_rng(0)
    lists = [generator.permutation(2_000)[: generator.integers(1, 150)] for _ in range(300)]
    golds = [generator.permutation(2_000)[: generator.integers(1, 30)].tolist() for _ in range(300)]
    for ranked, gold in zip(lists, golds, strict=True):
        gold[: len(gold) // 2] = ranked[: len(gold) // 2].tolist()
    golds = [sorted(set(gold)) for gold in golds]
    scores = np.concatenate([generator.integers(0, 4, len(ranked)) for ranked in lists]).astype(np.float64)
    ranked = rank(IdLists.of(lists), scores)
    values = measure(locate(ranked, IdLists.of(golds)), OURS, "standard")
    bounds = ranked.lists.offsets
    rankings = {q: ranked.lists.ids[bounds[q] : bounds[q + 1]].tolist() for q in range(300)}
    return rankings, dict(enumerate(golds)), values


def written(folder: Path, name: str, tied) -> Path:
    gold = {query: dict.fromkeys(ids, 1) for query, ids in tied[1].items()}
    for file, content in RANKING_FILES[name](tied[0], gold, "a model").items():
        (folder / file).write_text(content, encoding="utf-8")
    return folder


def test_trec_eval_finds_our_figures(tied, tmp_path):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    folder = written(tmp_path, "trec", tied)
    with (folder / "run.trec").open() as run, (folder / "qrels.trec").open() as qrels:
        evaluator = pytrec_eval.RelevanceEvaluator(
            pytrec_eval.parse_qrel(qrels),
            {
                "recip_rank",
                "map",
                "Rprec",
                *(f"{name}.{k}" for name in ("success", "recall", "P", "ndcg_cut") for k in KS),
            },
        )
        theirs = evaluator.evaluate(pytrec_eval.parse_run(run))
    names = {"mrr": "recip_rank", "map": "map", "r_precision": "Rprec"}
    families = {"hit": "success", "recall": "recall", "precision": "P", "ndcg": "ndcg_cut"}
    names |= {f"{ours}_at_{k}": f"{other}_{k}" for ours, other in families.items() for k in KS}
    for metric, column in tied[2].items():
        assert column == pytest.approx([theirs[str(q)][names[metric]] for q in range(300)], rel=1e-15), metric


def test_ir_measures_finds_our_figures(tied, tmp_path):
    ir_measures = pytest.importorskip("ir_measures")
    folder = written(tmp_path, "trec", tied)
    names = {"mrr": "RR", "map": "AP", "r_precision": "Rprec"}
    families = {"hit": "Success", "recall": "R", "precision": "P", "ndcg": "nDCG"}
    names |= {f"{ours}_at_{k}": f"{other}@{k}" for ours, other in families.items() for k in KS}
    metrics = {ir_measures.parse_measure(theirs): ours for ours, theirs in names.items()}
    qrels = list(ir_measures.read_trec_qrels(str(folder / "qrels.trec")))
    run = list(ir_measures.read_trec_run(str(folder / "run.trec")))
    found = {(metrics[each.measure], each.query_id): each.value for each in ir_measures.iter_calc(metrics, qrels, run)}
    for metric, column in tied[2].items():
        assert column == pytest.approx([found[metric, str(q)] for q in range(300)], rel=1e-15), metric


RANX = """
import json, sys
from ranx import Qrels, Run, evaluate
folder, *names = sys.argv[1:]
run = Run.from_file(f"{folder}/run.json")
evaluate(Qrels.from_file(f"{folder}/qrels.json"), run, names, make_comparable=True)
print(json.dumps({name: {query: float(value) for query, value in run.scores[name].items()} for name in names}))
"""


@pytest.mark.full
def test_ranx_finds_our_figures(tied, tmp_path):
    if find_spec("ranx") is None:
        pytest.skip("needs ranx")
    folder = written(tmp_path, "ranx", tied)
    names = {"mrr": "mrr", "map": "map", "r_precision": "r-precision"}
    families = {"hit": "hit_rate", "recall": "recall", "precision": "precision", "ndcg": "ndcg"}
    names |= {f"{ours}_at_{k}": f"{other}@{k}" for ours, other in families.items() for k in KS}
    call = [sys.executable, "-W", "ignore", "-c", RANX, str(folder), *names.values()]
    without_compiler = {**os.environ, "NUMBA_DISABLE_JIT": "1"}  # which would take minutes
    said = subprocess.run(call, capture_output=True, text=True, check=True, env=without_compiler).stdout
    found = json.loads(said.splitlines()[-1])
    for metric, column in tied[2].items():
        theirs = [found[names[metric]][str(q)] for q in range(300)]
        assert column == pytest.approx(theirs, rel=1e-14), metric


def test_ties_by_their_own_rule_would_give_other_figures(tied):
    """So that the tests above cannot pass by chance: with one score for all, trec_eval ranks otherwise."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    run = {str(q): dict.fromkeys(map(str, ids), 1.0) for q, ids in tied[0].items()}
    qrels = {str(q): dict.fromkeys(map(str, gold), 1) for q, gold in tied[1].items()}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(run)
    assert sum(theirs[str(q)]["recip_rank"] != tied[2]["mrr"][q] for q in range(300)) > 100


def test_an_id_that_a_trec_file_cannot_hold_is_refused():
    with pytest.raises(DataError, match="The id 'a b' cannot be written to a TREC file"):
        trec_files({"q": ["a b"]}, {"q": {"c": 1}}, "m")
    with pytest.raises(DataError, match="The id ''"):
        trec_files({"q": ["c"]}, {"q": {"": 1}}, "m")


def test_a_run_is_exported_with_its_gold(in_tmp, monkeypatch, capsys):
    def kbbench(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["kbbench", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code or 0

    assert kbbench("run", "mini-stark", "--model", "bm25", "--limit", "3", "--out", "r") == 0
    assert kbbench("export", "r", "--as", "trec") == kbbench("export", "r", "--as", "ranx") == 0
    lines = Path("r/trec/run.trec").read_text().splitlines()
    Path("r/trec/run.trec").unlink()
    assert kbbench("export", "r/result.json", "--as", "trec") == 0  # the file stands for its run
    assert Path("r/trec/run.trec").read_text().splitlines() == lines
    assert len(lines) == 3 * 281 and lines[0].split()[3:] == ["1", "281", "bm25"]
    assert {line.split()[0] for line in Path("r/trec/qrels.trec").read_text().splitlines()} == {"0", "1", "2"}
    assert kbbench("score", "r/trec/run.trec", "--benchmark", "mini-stark", "--mode", "standard") == 0
    assert "MRR" in capsys.readouterr().out
