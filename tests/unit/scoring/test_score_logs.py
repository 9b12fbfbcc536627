"""Logs of other harnesses and tables of scores, compared: every value against a computation of the test's own.

The logs were written by lm-evaluation-harness 0.4.3 and 0.4.13, and by inspect_ai 0.3.40, 0.3.100 and 0.3.285.
`expected.json` has the scores of each sample as inspect_ai's own reader gives them.
"""

import itertools
import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbbench_hf import run
from kbbench_hf.errors import DataError, KBBenchError, UsageError
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.significance import minimum_detectable_effect, paired_test
from kbbench_hf.reports.results_table import print_comparison
from kbbench_hf.reports.run_page import side_by_side_page
from kbbench_hf.scoring.comparison import Comparison, compare
from kbbench_hf.scoring.options import LogOptions, ReadOptions
from kbbench_hf.scoring.results_table import logged_results, results_table

LOGS = Path(__file__).parent / "logs"
Scores = Mapping[str, Mapping[str, float]]
DOCUMENT = {f"q{n:02d}": f"d{n // 3}" for n in range(12)}


def expected(log: str) -> Scores:
    """Return metric -> example -> mean score of a log."""
    if log.startswith("inspect"):
        found: Scores = json.loads((LOGS / "expected.json").read_text())[log]
        return found
    scores: dict[str, dict[str, float]] = {}
    seen: dict[int, int] = {}
    for line in next((LOGS / log).glob("*.jsonl")).read_text().splitlines():
        row = json.loads(line)
        seen[row["doc_id"]] = seen.get(row["doc_id"], 0) + 1
        suffix = f"/{row['filter']}" if "filter" in row else "/filter 2" if seen[row["doc_id"]] > 1 else ""
        scores.setdefault(f"exact_match{suffix}", {})[str(row["doc_id"])] = row["exact_match"]
    return scores


def enumerated(differences: Sequence[float]) -> float:
    """Return the p-value over all sign patterns of the differences that are not 0."""
    moved = np.array([each for each in differences if abs(each) > 1e-12])
    patterns = np.array(list(itertools.product([1, -1], repeat=len(moved))))
    return float((abs(patterns @ moved) >= abs(moved.sum()) - 1e-9).mean())


PAIRS = [
    ("lm_eval_0.4.13/a", "lm_eval_0.4.13/b"),
    ("lm_eval_0.4.3/a", "lm_eval_0.4.3/b"),
    ("inspect_0.3.285/a.eval", "inspect_0.3.285/b.eval"),
    ("inspect_0.3.100/a.eval", "inspect_0.3.100/b.eval"),
    ("inspect_0.3.100/a.eval", "inspect_0.3.100/c.eval"),
    ("inspect_0.3.40/a.json.gz", "inspect_0.3.40/b.json.gz"),
    ("inspect_0.3.40/a.json.gz", "inspect_0.3.285/b.eval"),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_means_differences_and_p_values_of_real_logs_are_those_of_an_independent_computation(
    first: str, second: str
) -> None:
    comparison, a, b = compare(LOGS / first, LOGS / second), expected(first), expected(second)
    assert list(comparison.tests) == [metric for metric in a if metric in b]
    for metric, test in comparison.tests.items():
        differences = [a[metric][key] - b[metric][key] for key in a[metric] if key in b[metric]]
        assert test.difference == pytest.approx(np.mean(differences), abs=1e-12)
        assert test.p_value == pytest.approx(enumerated(differences), abs=1e-12)
        for result, scores in ((comparison.a, a), (comparison.b, b)):
            assert result.scores[metric].value == pytest.approx(np.mean([*scores[metric].values()]), abs=1e-12)


@pytest.mark.parametrize(("first", "second"), PAIRS[2:])
def test_clustered_examples_get_one_sign_for_each_cluster(first: str, second: str) -> None:
    a, b = expected(first), expected(second)
    comparison = compare(LOGS / first, LOGS / second, logs=LogOptions(cluster="doc"))
    for metric, test in comparison.tests.items():
        sums: dict[str, float] = {}
        for key in a[metric]:
            if key in b[metric]:
                sums[DOCUMENT[key]] = sums.get(DOCUMENT[key], 0) + a[metric][key] - b[metric][key]
        assert test.p_value == pytest.approx(enumerated([*sums.values()]), abs=1e-12)


def test_dependent_examples_widen_intervals_and_the_smallest_difference_that_is_detected() -> None:
    generator = np.random.default_rng(1)
    clusters = [f"d{n // 5:02d}" for n in range(200)]
    of_cluster = generator.random(40) < 0.6
    values = np.repeat(of_cluster, 5).astype(float)
    alone, together = estimate(of_cluster), estimate(values, clusters=clusters)
    assert together.value == alone.value
    assert together.ci95 == pytest.approx(alone.ci95, abs=1e-9)  # five copies say no more than one
    other = np.repeat(generator.random(40) < 0.4, 5).astype(float)
    assert paired_test(values, other, clusters=clusters).p_value == paired_test(values[::5], other[::5]).p_value
    effect = minimum_detectable_effect(values - other, clusters=clusters)
    assert effect == pytest.approx(minimum_detectable_effect(values[::5] - other[::5]))
    assert estimate(values, clusters=[*map(str, range(200))]).ci95 == pytest.approx(estimate(values).ci95, abs=1e-12)


def test_differences_that_cancel_within_a_cluster_are_a_tie() -> None:
    a, clusters = [0.1, 0.2, 0.0, 1, 1, 1, 1], ["x", "x", "x", *"abcd"]
    b = [0.0, 0.0, 0.3, 0, 0, 0, 0]  # 0.1 + 0.2 - 0.3 is not 0 in floating point
    assert paired_test(a, b, clusters=clusters).p_value == 2 / 2**4


def test_tables_and_terminal_use_the_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    systems = logged_results(
        [str(LOGS / f"inspect_0.3.285/{name}.eval") for name in "ab"], logs=LogOptions(cluster="doc", value=["match"])
    )
    assert systems is not None
    comparison = compare(*systems)
    (block,) = results_table(systems)
    assert block.tests[0].test.p_value == comparison.tests["match"].p_value
    print_comparison(comparison, ("a", "b"), comparison.a.definition)
    effect = minimum_detectable_effect(
        systems[0].values["match"] - systems[1].values["match"], clusters=[*DOCUMENT.values()]
    )
    assert f"(80 % power): {effect:.4f}" in capsys.readouterr().out.replace("\n", " ")


def test_failed_samples_and_repeats_are_counted() -> None:
    comparison = compare(LOGS / "inspect_0.3.40/a.json.gz", LOGS / "inspect_0.3.100/c.eval")
    warnings = {(each.code, each.system): each for each in comparison.warnings}
    assert "repeats" in {code for code, _ in warnings}
    assert "samples failed" in warnings["missing_scores", "B"].message
    assert ("clusters", "A") in warnings


TABLE = [{"id": f"q{n}", "score": score} for n, score in enumerate((1, 0, 1, 1, 0, 1, 1, 1))]
OTHER = [{"id": f"q{n}", "score": score} for n, score in enumerate((0, 0, 1, 0, 0, 0, 1, 0))]


def written(folder: Path, name: str, text: str | object) -> Path:
    file = folder / name
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    return file


def csv_text(rows: Sequence[Mapping[str, Any]], separator: str = ",") -> str:
    lines = [separator.join(rows[0]), *(separator.join(map(str, row.values())) for row in rows)]
    return "\n".join(lines) + "\n"


def to_parquet(rows: Any, folder: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    return folder / "a.parquet"


def to_pandas(rows: Any, folder: Path) -> Any:
    import pandas

    return pandas.DataFrame(rows)


def to_dataset(rows: Any, folder: Path) -> Any:
    import datasets

    return datasets.Dataset.from_list(rows)


FORMS: Mapping[str, Callable[[Any, Path], Any]] = {
    "csv": lambda rows, folder: written(folder, "a.csv", csv_text(rows)),
    "semicolons": lambda rows, folder: written(folder, "a.csv", csv_text(rows, ";").replace(".", ",")),
    "truth values": lambda rows, folder: written(
        folder, "a.csv", csv_text([{"qid": row["id"], "score": bool(row["score"])} for row in rows])
    ),
    "json lines": lambda rows, folder: written(folder, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
    "object": lambda rows, folder: written(folder, "a.json", {row["id"]: row["score"] for row in rows}),
    "parquet": to_parquet,
    "list": lambda rows, folder: rows,
    "mapping": lambda rows, folder: {row["id"]: row["score"] for row in rows},
    "pandas": to_pandas,
    "dataset": to_dataset,
    "saved dataset": lambda rows, folder: to_dataset(rows, folder).save_to_disk(folder / "a") or folder / "a",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_table_has_the_same_scores_in_every_form(form: str, tmp_path: Path) -> None:
    test = compare(FORMS[form](TABLE, tmp_path), OTHER).tests["score"]
    assert (test.difference, test.wins, test.losses) == (0.5, 4, 0)
    assert test.p_value == 2 / 2**4


LIGHTEVAL = {
    "new": [
        {"doc": {"id": str(n), "query": "Q"}, "metric": {"em": float(n % 2), "f1": 0.5}, "model_response": {"text": []}}
        for n in range(8)
    ],
    "old": [
        {"example": "x", "full_prompt": "Q", "metrics": str({"em": float(n % 2), "f1": 0.5}), "predictions": "[]"}
        for n in range(8)
    ],
}  # fmt: skip


@pytest.mark.parametrize("version", LIGHTEVAL)
def test_details_of_lighteval_and_results_of_promptfoo_are_read(version: str, tmp_path: Path) -> None:
    details = to_parquet(LIGHTEVAL[version], tmp_path)
    backwards = LIGHTEVAL[version][::-1]
    assert compare(details, details).a.scores["em"].value == 0.5
    assert compare(details, backwards).tests["em"].ties == (8 if version == "new" else 0)  # old ones are numbered
    rows = [
        {"vars": {"q": f"Q{n}"}, "testIdx": n, "promptIdx": 0, "provider": {"id": model}, "success": n % 2 == which,
         "score": 0.25 * which, "namedScores": {"polite": 1}, "response": {"output": "x"}}
        for which, model in enumerate(["small", "large"]) for n in range(4)
    ]  # fmt: skip
    file = written(tmp_path, "promptfoo.json", {"results": {"results": rows}})
    small, large = logged_results([file]) or ()
    assert small.log and small.log.name == "small" and large.scores["score"].value == 0.25
    assert compare(small, large).tests["success"].difference == 0


def test_rankings_have_the_values_of_trec_eval(tmp_path: Path) -> None:
    import pytrec_eval

    generator = random.Random(3)
    qrels = {f"q{n}": {f"d{m}": generator.randint(0, 2) for m in range(0, 30, 3)} for n in range(9)}
    runs = [{q: {f"d{m}": generator.random() for m in generator.sample(range(30), 20)} for q in qrels} for _ in "ab"]
    judged = "".join(f"{q} 0 {d} {grade}\n" for q, of in qrels.items() for d, grade in of.items())
    logs = LogOptions(qrels=written(tmp_path, "qrels.txt", judged))
    lines = "".join(
        f"{q} Q0 {d} {rank} {of[d]!r} x\n"
        for q, of in runs[0].items()
        for rank, d in enumerate(sorted(of, key=lambda d: -of[d]), start=1)
    )
    splits = {"test": {"q0": runs[1].pop("q0")}, "train": runs[1]}
    mteb = {"mteb_model_meta": {"model_name": "m"}, "default": splits}
    trec, predictions = written(tmp_path, "a.trec", lines), written(tmp_path, "b_predictions.json", mteb)
    comparison = compare(trec, predictions, logs=logs)
    theirs_by_ours = dict(zip(comparison.tests, "ndcg_cut_10 map recip_rank recall_100 success_1".split(), strict=True))
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {*theirs_by_ours.values()})
    for result, ranking in zip((comparison.a, comparison.b), (runs[0], splits["test"] | runs[1]), strict=True):
        theirs = evaluator.evaluate(ranking)
        for metric, name in theirs_by_ours.items():
            assert result.values[metric] == pytest.approx([theirs[q][name] for q in result.ids], abs=1e-12), metric
    in_text = {"q0": {d: f"{100 * score:.9f}" for d, score in runs[0]["q0"].items()}}  # 9.8 is above 10.4 as text
    found = compare(trec, written(tmp_path, "text.json", in_text), logs=logs)
    assert found.b.values["map"][0] == found.a.values["map"][0] > 0
    per_query = {"q1": {"ndcg_at_10": 0.5}, "q2": {"ndcg_at_10": 1.0}}
    task = {
        "task_name": "T",
        "scores": {"test": [{"hf_subset": "default", "main_score": 0.75, "per_query": per_query}]},
    }
    file = written(tmp_path, "T.json", task)
    assert compare(file, file).a.scores["ndcg_at_10"].value == 0.75


def many(n: int = 20, **columns: Callable[[int], Any]) -> list[dict[str, Any]]:
    return [{"id": f"q{each}", **{name: of(each) for name, of in columns.items()}} for each in range(n)]


SAMPLE = {"doc_id": 1, "doc": {}, "resps": [], "filtered_resps": [], "acc": 1}
EEE = {"evaluation_id": 1, "sample_id": "a", "evaluation": {"score": 1}, "evaluation_name": "x", "model_id": "m"}
OTHER_TYPES: Mapping[str, dict[str, Any]] = {
    "lighteval details": {"example": 1, "full_prompt": "x", "metrics": "em: 1"},
    "lighteval details (list)": {"doc": {}, "metric": [1], "model_response": {}},
    "promptfoo results": {"vars": "x", "success": True},
    "promptfoo results (scores)": {"vars": {"id": 1}, "success": True, "namedScores": [1]},
    "lm-evaluation-harness samples": {**SAMPLE, "doc_id": [1]},
    "lm-evaluation-harness samples (metrics)": {**SAMPLE, "metrics": 3},
    "Every Eval Ever samples": {"evaluation_id": 1, "sample_id": {}, "evaluation": 3, "evaluation_name": "x"},
    "Every Eval Ever samples (model)": {**EEE, "model_id": ["m"]},
    "Every Eval Ever samples (epoch)": {**EEE, "metadata": {"epoch": {}}},
    "an inspect_ai log": {"id": 1, "input": "x", "target": "y", "metadata": {}, "scores": [1]},
}


@pytest.mark.parametrize("log", OTHER_TYPES)
def test_a_log_with_a_field_of_another_type_is_refused_in_words(log: str) -> None:
    message = f"a field has another type than in {log.partition(' (')[0]} .*--value COLUMN"
    with pytest.raises(DataError, match=message):
        compare([OTHER_TYPES[log]], [OTHER_TYPES[log]])


@pytest.mark.parametrize(
    ("ids", "message"),
    [("d1", "'d1' is not a ranking"), ({"d1": None}, "score None is not"), ({"d1": "x"}, "score 'x'")],
)
def test_a_ranking_without_an_order_is_refused_in_words(ids: object, message: str, tmp_path: Path) -> None:
    logs = LogOptions(qrels=written(tmp_path, "qrels.txt", "q1 0 d1 1\n"))
    with pytest.raises(DataError, match=message):
        compare([{"id": "q1", "ids": ids}], [{"id": "q1", "ids": ["d1"]}], logs=logs)


SCORES = many(score=lambda n: n % 3 / 2)
WRONG: Mapping[str, tuple[Any, Any, LogOptions, str]] = {
    "no shared id": (SCORES, [{**row, "id": f"x{row['id']}"} for row in SCORES], LogOptions(), r"No example.*--id"),
    "half of the ids": (SCORES, SCORES[:9], LogOptions(), r"all \(A also has q9, q10, q11 \.\.\.\)\. .*--shared"),
    "repeated ids": (SCORES, SCORES + SCORES[:1], LogOptions(), r"'q0' occurs twice.*--system.*--duplicates"),
    "text": (SCORES, many(score=lambda n: "good"), LogOptions(), r"'good'; a score is a number.*--value"),
    "infinite": (SCORES, many(score=lambda n: float("inf")), LogOptions(), r"'inf'; a score is a number"),
    "two columns": (many(f1=lambda n: 0.1, em=lambda n: 1), SCORES, LogOptions(), r"--value f1 or em.*A,B"),
    "other clusters": (
        many(page=lambda n: n // 4, score=lambda n: n % 2),
        many(page=lambda n: n // 5, score=lambda n: 1),
        LogOptions(cluster="page"),
        r"other clusters of examples by 'page'.*--cluster",
    ),
    "no such column": (SCORES, SCORES, LogOptions(value=["f1"]), r"no 'f1'.*--value NAME, of id, score"),
    "percentages": (SCORES, many(score=lambda n: 4.0 * n), LogOptions(), r"shares and percentages.*Divide"),
    "no id": ([{"score": 1}] * 3, SCORES, LogOptions(), r"no id \(columns score\).*--id COLUMN"),
    "wrong id": (SCORES, SCORES, LogOptions(id="qid"), r"without 'qid'"),
    "no values": (SCORES, many(score=lambda n: None), LogOptions(value=["score"]), r"B has no scores.*--value COLUMN"),
    "empty": ([], SCORES, LogOptions(), r"it is empty"),
    "predictions": (many(triples=lambda n: []), SCORES, LogOptions(), r"no column of scores.*--benchmark NAME"),
    "rankings": (many(ids=lambda n: [1]), SCORES, LogOptions(), r"no scores per query.*--qrels"),
    "no cluster": (SCORES, SCORES, LogOptions(cluster="doc"), r"no 'doc' in each row; expected one of id, score"),
    "scale": (SCORES, SCORES, LogOptions(scale=(1, 5)), r"scores from 0 to 1; expected 1 to 5.*--scale"),
    "direction": (SCORES, SCORES, LogOptions(lower_is_better=["wer"]), r"Unknown metric of these logs 'wer'"),
    "other metrics": (many(f1=lambda n: 1), many(em=lambda n: 1), LogOptions(), r"No score is in all logs \(A: f1; B"),
    "no file": ("nothing.csv", SCORES, LogOptions(), r"nothing.csv does not exist"),
    "not objects": ([1, 2], SCORES, LogOptions(), r"'1' is not an object"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_names_what_to_type(case: str) -> None:
    first, second, options, message = WRONG[case]
    with pytest.raises(KBBenchError, match=message):
        compare(first, second, logs=options)


def test_other_examples_under_the_same_ids_are_refused() -> None:
    logs = [
        [{"doc_id": n, "doc": {"q": n + shift}, "resps": [], "filtered_resps": [], "acc": 1} for n in range(6)]
        for shift in (0, 1)
    ]
    with pytest.raises(DataError, match=r"6 of 6 ids belong to different examples.*--id COLUMN"):
        compare(*logs)


def test_shared_examples_are_compared_when_asked_and_counted() -> None:
    comparison = compare(SCORES, SCORES[:9], logs=LogOptions(shared=True))
    assert len(comparison.a.ids) == 9
    assert next(each for each in comparison.warnings if each.code == "shared_examples").n_examples == 11


def test_missing_scores_leave_the_test_and_are_counted() -> None:
    without = [{**row, "score": None if n < 4 else row["score"]} for n, row in enumerate(SCORES)]
    comparison = compare(SCORES, without)
    (warning,) = (each for each in comparison.warnings if each.code == "missing_scores")
    assert (warning.n_examples, warning.system) == (4, "B")
    assert comparison.tests["score"].ties == 16
    assert comparison.b.scores["score"].n_unscored == 4


def test_scores_on_a_scale_have_an_interval_within_it() -> None:
    likert = many(score=lambda n: 5)
    result = compare(likert, likert, logs=LogOptions(scale=(1, 5))).a.scores["score"]
    assert result.value == 5 and 4 < result.ci95[0] < 5 == result.ci95[1]


@pytest.mark.parametrize(
    ("metric", "options", "lower"),
    [
        ("wer", LogOptions(), True),
        ("error_accuracy", LogOptions(), False),
        ("wer", LogOptions(lower_is_better=["none"]), False),
        ("speed", LogOptions(lower_is_better=["speed"]), True),
        ("speed", LogOptions(), False),
        ("answer", LogOptions(), False),
    ],
)
def test_the_better_direction_is_known_by_name_or_given_or_stated(
    metric: str, options: LogOptions, lower: bool
) -> None:
    better, worse = many(**{metric: lambda n: 0.1}), many(**{metric: lambda n: 0.9})
    comparison = compare(better, worse, logs=options)
    assert comparison.tests[metric].wins == (20 if lower else 0)
    stated = any(each.code == "direction" for each in comparison.warnings)
    assert stated == (metric in ("speed", "answer") and not options.lower_is_better)


@pytest.mark.parametrize(
    ("scores", "means"),
    [
        (
            {"scores": {"a": {"value": "C"}, "b": {"value": [0, True]}, "c": {"value": "good"}}},
            {"a": 1, "b.0": 0, "b.1": 1},
        ),
        ({"scores": {"a": "P", "b": {"value": {"x": 0.25, "y": None}}}}, {"a": 0.5, "b.x": 0.25}),
        ({"score": {"value": "I"}}, {"score": 0}),
        ({"scores": {"a": {"value": float("nan")}, "b": {"value": 1}}}, {"b": 1}),
    ],
)
def test_values_of_scorers_of_every_kind_are_read(
    scores: Mapping[str, Any], means: Mapping[str, float], tmp_path: Path
) -> None:
    samples = [
        {"id": n, "epoch": 1, "input": "q", "target": "t", "output": {"completion": "x"}, **scores} for n in range(3)
    ]
    log = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}
    file = written(tmp_path, "log.json", log)
    found = compare(file, file).a.scores
    assert {metric: each.value for metric, each in found.items()} == means


def test_ids_that_a_table_holds_as_fractions_are_whole_numbers() -> None:
    assert compare({"1": 1, "2": 0}, [{"id": 1.0, "score": 1}, {"id": 2.0, "score": 0}]).tests["score"].ties == 2
    assert compare(versions := {"v1": 1, "v1.0": 0}, versions).tests["score"].ties == 2


def test_the_index_of_pandas_is_the_id(tmp_path: Path) -> None:
    """Where it is named, is no count of rows, or was written to a file, in which it has no name."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([{"id": f"q{n}", "score": n % 2} for n in range(9)])
    kept = frame[["score"]][frame.score == 1]  # its index still has the numbers of the whole table
    (tmp_path / "a.csv").write_text(kept.to_csv())
    assert (tmp_path / "a.csv").read_text().startswith(",score")
    for table, ids in (
        (frame.set_index("id"), [f"q{n}" for n in range(9)]),
        (frame.set_index("id").score, [f"q{n}" for n in range(9)]),
        (kept, ["1", "3", "5", "7"]),
        (tmp_path / "a.csv", ["1", "3", "5", "7"]),
    ):
        assert compare(table, table).a.ids == ids
    for counted in (frame[["score"]], frame.score):
        with pytest.raises(DataError, match="has no id"):
            compare(counted, counted)


def test_a_column_of_numbers_that_has_another_use_is_no_score() -> None:
    rows = [{"item": n, "page": n // 2, "score": 1} for n in range(8)]
    assert compare(rows, rows, logs=LogOptions(id="item", cluster="page")).tests["score"].ties == 8


def test_one_table_may_hold_several_systems_in_rows_or_in_columns() -> None:
    long = [{**row, "model": model} for model in ("x", "y") for row in SCORES]
    for table, options in (
        (long, LogOptions(system="model")),
        (many(x=lambda n: 1, y=lambda n: 0), LogOptions(value=["x", "y"])),
    ):
        (block,) = results_table([table], logs=options)  # type: ignore[list-item]
        assert {each.name for each in block.systems} == {"x", "y"}
        assert block.task_key[1:] == ("default", "logged", "logged")
    with pytest.raises(UsageError, match=r"Only one system.*--system COLUMN"):
        results_table([SCORES])  # type: ignore[list-item]


def test_where_and_duplicates_choose_rows() -> None:
    seeds = [{**row, "seed": seed} for seed in (1, 2) for row in SCORES]
    assert compare(seeds, seeds, options=ReadOptions(where={"seed": "2"})).tests["score"].ties == 20
    assert compare(seeds, SCORES, options=ReadOptions(duplicates="last")).tests["score"].ties == 20


def test_two_logs_of_one_task_in_a_folder_are_not_taken_for_repeats(tmp_path: Path) -> None:
    for name in ("first.eval", "again.eval"):
        shutil.copy(LOGS / "inspect_0.3.285/a.eval", tmp_path / name)
    with pytest.raises(DataError, match=r"'sums/q00' occurs twice.*one file"):
        compare(tmp_path, LOGS / "inspect_0.3.285/b.eval")


def test_the_page_shows_the_examples_on_which_logs_differ_most() -> None:
    systems = logged_results([f"first={LOGS / 'inspect_0.3.285/a.eval'}", f"second={LOGS / 'inspect_0.3.285/b.eval'}"])
    page = side_by_side_page(results_table(systems or [])[0])
    assert "What is" in page and "ANSWER: " in page and "first" in page


def test_a_folder_of_several_tasks_has_a_slice_for_each(tmp_path: Path) -> None:
    row = {"doc": {}, "resps": [], "filtered_resps": []}
    for model, right in (("a", 1), ("b", 0)):
        for task, metric in (("one", "acc"), ("two", "f1")):
            lines = "".join(json.dumps({**row, "doc_id": n, "filter": "none", metric: right}) + "\n" for n in range(7))
            (tmp_path / model).mkdir(exist_ok=True)
            (tmp_path / model / f"samples_{task}_2026-01-01T00-00-00.0.jsonl").write_text(lines)
    comparison: Comparison = compare(tmp_path / "a", tmp_path / "b")
    assert {key: tests["acc"].wins for key, tests in comparison.in_slice("task").items()} == {"one": 7, "two": 0}
    assert not any(each.code == "missing_scores" for each in comparison.warnings)


def test_runs_on_two_revisions_are_compared_when_asked_with_what_changed(in_tmp: Path) -> None:
    for name, model in (("before", "bm25"), ("after", "graph:bm25")):
        run("mini-stark", model, out=Path(name), show=False)
    for file in ("run.json", "result.json"):  # as if the data were rebuilt with fewer edges
        text = Path("after", file).read_text()
        changed = json.loads(
            text.replace(json.loads(Path("after/result.json").read_text())["dataset_revision"], "f" * 40)
        )
        changed.get("tables", {})["edges"] = 7
        Path("after", file).write_text(json.dumps(changed))
    with pytest.raises(UsageError, match="--across-revisions"):
        compare("before", "after")
    across = LogOptions(across_revisions=True)
    comparison = compare("before", "after", logs=across)
    before, after = (json.loads(Path(name, "result.json").read_text())["scores"] for name in ("before", "after"))
    assert comparison.tests["mrr"].difference == pytest.approx(
        before["mrr"]["value"] - after["mrr"]["value"], abs=1e-12
    )
    (warning,) = (each for each in comparison.warnings if each.code == "revisions")
    n_edges = json.loads(Path("before/run.json").read_text())["tables"]["edges"]
    assert f"{n_edges:,} edges" in warning.message and "ffffffff" in warning.message and " 7 edges" in warning.message
    assert {each.name for each in results_table(["before", "after"], logs=across)[0].systems} == {"bm25", "graph(bm25)"}
    with pytest.raises(UsageError, match="nothing is not the folder of a finished run"):
        compare("before", "nothing", logs=across)
    lines = Path("after/scores.jsonl").read_text().splitlines(keepends=True)
    Path("after/scores.jsonl").write_text("".join(lines[:-5]))
    with pytest.raises(UsageError, match="--shared"):
        compare("before", "after", logs=across)
