"""STaRK's benchmarks: what is open stays open, means do not flatter, and a real run gets its official figures."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.retrieval import METRICS, Candidates
from kbbench_hf.benchmarks.stark.benchmark import AMAZON, MAG, PRIME
from kbbench_hf.building.stark.release import build
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import write_dataset

CARD = "---\npretty_name: made\n---\n"


@pytest.fixture
def examples(tmp_path):
    """Three questions over MAG's candidates; the second has an answer that is no paper, the third has no other."""
    papers = [1_172_724, 1_172_725, 1_172_726]
    rows = [
        {"id": 0, "query": "a", "answer_ids": papers[:2], "answer_ids_source": None, "flags": []},
        {"id": 1, "query": "b", "answer_ids": [papers[2], 5], "answer_ids_source": None, "flags": []},
        {"id": 2, "query": "c", "answer_ids": [7], "answer_ids_source": None, "flags": []},
    ]
    train = [{**rows[0], "id": 9, "answer_ids": [papers[2]]}]
    tables = {"queries": {"train": pa.Table.from_pylist(train), "test": pa.Table.from_pylist(rows)}}
    return MAG.data.load(write_dataset(tmp_path / "stark-mag", tables, CARD), "queries", "test")


def test_an_answer_behind_the_ranking_leaves_mrr_and_map_open(examples):
    scores = MAG.scoring.score(examples, [[1_172_724], [1_172_724], []], "reference")
    assert scores.values["mrr"][0] == 1.0 and math.isnan(scores.values["mrr"][1])
    assert np.isnan(scores.values["map"][:2]).all()
    assert scores.values["hit_at_1"].tolist() == [1.0, 0.0, 0.0]
    # One of two answers found at rank 1, the other at worst last of 700,244: (1/1 + 2/700244) / 2
    assert scores.at_least["map"][0] == pytest.approx((1 + 2 / 700_244) / 2)
    assert scores.counters == {"n_empty": 1, "n_empty_gold": 1, "n_not_candidates": 2, "n_not_determined": 2}


def test_a_mean_counts_what_is_open_at_the_least_it_can_be(examples):
    figure = MAG.scoring.summarise(
        MAG.scoring.score(examples, [[1_172_724], [1_172_724], []], "reference"), "reference"
    )["mrr"]
    assert figure.value == pytest.approx((1 + 1 / 700_244 + 0) / 3)
    assert (figure.n_scored, figure.n_unscored) == (2, 1)


def test_rankings_that_end_too_early_are_warned_of(examples):
    shallow, open_ = map(str, MAG.scoring.warn(MAG, examples, [[1_172_724], None, []], "reference"))
    assert shallow.startswith("1 of 3 rankings end before rank 20, the longest of these at 1")
    assert open_.startswith("MRR and MAP are at depth 1, the least that they can be: 1 of 3 rankings end before their")
    assert "--top-k" in open_ and "0 before their first" in open_
    whole = [*examples.rows[0]["answer_ids"], *range(1_180_000, 1_180_020)]
    assert MAG.scoring.warn(MAG, examples, [whole, None, None], "reference") == []


def test_cut_offs_that_hold_all_candidates_are_warned_of_and_others_are_not(examples):
    small = replace(examples.context, candidates=Candidates(range(8)))
    of_eight = replace(examples, rows=examples.rows[:1], context=small)
    trivial, *_ = MAG.scoring.warn(MAG, of_eight, [[*range(8)]], "reference")
    assert trivial.code == "trivial_cutoffs"
    assert "8 candidates: R@20, Hit@10, Hit@20, Hit@50, R@10, R@50, R@100 are 1 for every ranking" in str(trivial)
    codes = [each.code for each in MAG.scoring.warn(MAG, examples, [[1_172_724], None, []], "reference")]
    assert "trivial_cutoffs" not in codes


def test_a_missing_ranking_scores_zero(examples):
    scores = MAG.scoring.score(examples, [None, None, None], "reference")
    assert all((column == 0).all() for column in scores.values.values())


def test_standard_mode_counts_answers_that_are_no_candidates_and_leaves_nothing_open(examples):
    scores = MAG.scoring.score(examples, [[1_172_724], [1_172_726], [1_172_724]], "standard")
    assert scores.values["recall_at_5"].tolist() == [0.5, 0.5, 0.0]
    assert scores.values["map"].tolist() == [0.5, 0.5, 0.0]


def test_slices_say_how_many_answers_and_whether_training_has_them(examples):
    slices = MAG.scoring.score(examples, [[], [], []], "reference").slices
    assert slices == {
        "answer_count": ["2-5", "2-5", "1"],
        "answer_in_training": ["false", "true", "false"],
        "answer_type": ["paper", "paper", "none"],  # only papers may be ranked, whether or not their nodes are here
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([5], "5 at position 1 is not one of the 700,244 candidates"),
        ([1_172_724, 1_172_724], "occurs twice, the second time at position 2"),
        ([1_172_724, -1], "-1 at position 2"),
        (["1172724"], "'1172724' at position 1"),
    ],
)
def test_a_wrong_candidate_is_named(examples, answer, words):
    assert words in MAG.scoring.check(examples, 0, answer)
    assert MAG.scoring.check(examples, 0, [1_172_724]) is None


def test_test_0_1_where_the_source_had_no_list_is_explained(tmp_path, shared):
    build_from = shared / "data/stark/prime"
    from kbbench_hf.building.stark.release import PRIME as RELEASE
    from kbbench_hf.files.datasets import DatasetFolder

    build(RELEASE, build_from, tmp_path / "stark-prime", ["queries"])
    with pytest.raises(UsageError, match="only the Hub's copy"):
        PRIME.data.load(DatasetFolder(tmp_path / "stark-prime"), "queries", "test_0_1")
    assert len(PRIME.data.load(DatasetFolder(tmp_path / "stark-prime"), "queries", "all").rows) == 11_204


def test_a_real_run_scores_as_the_official_evaluator_did(shared, tmp_path):
    from kbbench_hf.building.stark.release import AMAZON as RELEASE
    from kbbench_hf.files.datasets import DatasetFolder

    csv.field_size_limit(1 << 24)
    folder = shared / "data/stark/amazon"
    build(RELEASE, folder, tmp_path / "out", ["queries"])
    examples = AMAZON.data.load(DatasetFolder(tmp_path / "out"), "queries", "human")
    with (folder / "avatar_vss_ada002/eval_results_human_generated_eval.csv").open() as source:
        run = {int(row["query_id"]): json.loads(row["pred_rank"]) for row in csv.DictReader(source)}
    answers = [run[row["id"]] for row in examples.rows]
    assert all(AMAZON.scoring.check(examples, row["id"], run[row["id"]]) is None for row in examples.rows)
    figures = AMAZON.scoring.summarise(AMAZON.scoring.score(examples, answers, "reference"), "reference")
    official = json.loads((folder / "avatar_vss_ada002/eval_metrics_human_generated_eval.json").read_text())
    for name, value in official.items():
        ours = figures[name.replace("@", "_at_").replace("rprecision", "r_precision")]
        # what 1,000 ranks leave open is at most 1/1001 of one question each
        assert value == pytest.approx(
            ours.value, abs=1e-6 if not ours.n_unscored else ours.n_unscored / 81 / 1001 + 1e-6
        )


def test_every_released_dataset_is_registered_with_the_papers_metrics_first():
    for name in ("stark-amazon", "stark-mag", "stark-prime", "mini-stark"):
        assert benchmark(name).dataset == name
    assert list(METRICS)[:4] == ["hit_at_1", "hit_at_5", "recall_at_20", "mrr"]


def test_published_rows_are_those_of_the_paper(shared):
    from kbbench_hf.benchmarks.baselines import published_rows

    splits = {"test": "test", "test-0.1": "test_0_1", "human_generated_eval": "human"}
    with (shared / "expected/stark_tables.csv").open() as source:
        rows = list(csv.DictReader(source))
    assert len(rows) == 102
    for row in rows:
        place = published_rows(f"stark-{row['dataset']}", "queries", splits[row["split"]], "reference")
        found = next(each for each in place if each.system == row["model"])
        for theirs, ours in (
            ("hit@1", "hit_at_1"),
            ("hit@5", "hit_at_5"),
            ("recall@20", "recall_at_20"),
            ("mrr", "mrr"),
        ):
            assert found.scores[ours] == pytest.approx(float(row[theirs]) / 100, abs=1e-12)
        doubtful = any("no share" in note for note in found.notes.values())
        assert doubtful == (row["hit_consistent_with_n"] == "False")
