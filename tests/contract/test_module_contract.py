"""All `evaluate` modules: what they accept, and the keys and values that they return, in every way of calling them."""

import json
import logging
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import evaluate
import numpy as np
import pytest

import kbbench_hf
from kbbench_hf.app.metric_page import page_of
from kbbench_hf.errors import DataError
from kbbench_hf.hub.metric_modules import metric_modules
from kbbench_hf.scoring.evaluate_modules import WARNINGS
from tests.contract.modules import EVALUATE

MODES = [(name, mode) for name in metric_modules() for mode in page_of(name).modes or [None]]
TRIPLE = ["a", "r", "b"]
REFERENCE = {"sentence": "a b", "triples": [TRIPLE], "ontology": {"concepts": ["c"], "relations": ["r"]}}
GOLD = {"answer_f1": ["Paris"], "genres": [TRIPLE], "ranking": ["a"], "rejection_rate": "no", "text2kg": REFERENCE}


@pytest.fixture(scope="module")
def modules() -> dict[str, Any]:
    return {name: evaluate.load(str(folder)) for name, folder in metric_modules().items()}


def examples(name: str) -> dict[str, Any]:
    return {"predictions": list(page_of(name).predictions), "references": list(page_of(name).references)}


def same(a: dict[str, float], b: dict[str, float]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key], equal_nan=True) for key in a)


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_the_keys_depend_on_the_options_alone_and_every_value_is_a_float(
    modules: dict[str, Any], name: str, mode: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"return_ci": True, **({"mode": mode} if mode else {})}
    given = examples(name)
    found = modules[name].compute(**given, **options)
    one = modules[name].compute(**{key: column[:1] for key, column in given.items()}, **options)
    caplog.clear()
    none = modules[name].compute(predictions=[], references=[], **options)
    assert found.keys() == none.keys() == one.keys()
    assert {type(value) for result in (found, one, none) for value in result.values()} == {float}
    assert not any(math.isinf(value) for value in one.values())
    assert all(math.isnan(value) for key, value in none.items() if "n_" not in key)
    assert "There are no predictions" in caplog.text
    saved = evaluate.save(tmp_path, **modules[name].compute(**given, **options, return_warnings=True))
    stored = json.loads(saved.read_text())
    assert all(stored[key] == value for key, value in found.items() if not math.isnan(value))


@pytest.mark.parametrize("name", metric_modules())
def test_batches_processes_and_combinations_give_the_same(modules: dict[str, Any], name: str, tmp_path: Path) -> None:
    module, given = modules[name], examples(name)
    whole = module.compute(**given)
    for prediction, reference in zip(*given.values(), strict=True):
        module.add_batch(predictions=[prediction], references=[reference])
    assert same(module.compute(), whole)
    module.add(prediction=given["predictions"][0], reference=given["references"][0])
    module.add_batch(**{key: column[1:] for key, column in given.items()})
    assert same(module.compute(), whole)
    combined = evaluate.combine([module, evaluate.load(str(metric_modules()[name]))]).compute(**given)
    assert same(
        {f"{module.name}_0_{key}": whole[key] for key in whole}, {k: combined[k] for k in combined if "_0_" in k}
    )


SHARE = f"""{EVALUATE}
import json
folder, cache, process, given = *sys.argv[1:3], int(sys.argv[3]), json.loads(sys.argv[4])
module = evaluate.load(folder, num_process=2, process_id=process, experiment_id="two", cache_dir=cache)
print(json.dumps(module.compute(**{{key: column[process::2] for key, column in given.items()}})))
"""


def test_two_processes_score_their_shares_together(modules: dict[str, Any], tmp_path: Path) -> None:
    given = examples("ranking")
    command = [sys.executable, "-c", SHARE, str(metric_modules()["ranking"]), str(tmp_path)]
    commands = ([*command, str(process), json.dumps(given)] for process in range(2))
    workers = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in commands]
    found, nothing = (json.loads(worker.communicate()[0]) for worker in workers)
    assert found == pytest.approx(modules["ranking"].compute(**given), nan_ok=True)
    assert nothing is None and [worker.returncode for worker in workers] == [0, 0]


@pytest.mark.parametrize(
    ("name", "prediction", "metric"),
    [
        *(
            ("answer_f1", entry, "answer_f1")
            for entry in (
                {"answer": ["Paris"]},
                {"answers": ["Paris"], "id": "q1"},
                {"score": 0.9, "start": 3, "end": 8, "answer": "Paris"},
                ("Paris",),
                {"Paris"},
                np.array(["Paris"]),
                [np.str_("Paris")],
                '{"answer": ["Paris"]}',
            )
        ),
        *(
            ("ranking", entry, "mrr")
            for entry in (
                {"b": 0.1, "a": 0.9},
                {"ids": ["a", "b"]},
                ("a", "b"),
                {"a"},
                np.array(["a", "b"]),
                [{"id": "b", "score": 1}, {"id": "a", "score": 2}],
                [{"corpus_id": "b", "score": np.float32(0.1)}, {"corpus_id": "a", "score": np.float32(0.2)}],
            )
        ),
        *(
            (name, entry, "f1")
            for name in ("genres", "text2kg")
            for entry in (
                [("a", "r", "b")],
                {("a", "r", "b")},
                np.array([TRIPLE]),
                {"triples": [TRIPLE]},
                [{"sub": "a", "rel": "r", "obj": "b"}],
                [{"subject": "a", "predicate": "r", "object": "b"}],
                [{"head": "a", "type": "r", "tail": "b"}],
            )
        ),
        ("rejection_rate", {"answer": "no"}, "rejection_rate"),
        ("rejection_rate", np.str_("no"), "rejection_rate"),
    ],
)
def test_a_right_prediction_is_right_in_every_form(
    modules: dict[str, Any], name: str, prediction: Any, metric: str
) -> None:
    assert modules[name].compute(predictions=[prediction], references=[GOLD[name]])[metric] == 1


@pytest.mark.parametrize(
    ("name", "prediction"),
    [
        *(("answer_f1", each) for each in (None, 3, True, {"Paris", "Rome"}, {"label": "Paris"}, {"Paris": 0.9})),
        *(("answer_f1", [each]) for each in (None, True, ["Paris"], {"answer": "Paris"}, math.nan, object(), b"Paris")),
        *(("ranking", each) for each in (None, "a", 3, {"a", "b"}, {"id": "a", "score": 1.0}, {"text": "a"}, [["a"]])),
        *(("ranking", each) for each in ([1.5], [None], [True], [{"id": "a"}], [{"id": "a", "score": 1.0}, "b"])),
        *(("genres", each) for each in (None, "a r b", 3, TRIPLE, {"x": [TRIPLE]}, [[TRIPLE]], [{"x": 1}])),
        *(("text2kg", each) for each in (None, 3, TRIPLE, {"x": [TRIPLE]}, [[TRIPLE]], [{"x": 1}], [{"a", "r", "b"}])),
        *(("rejection_rate", each) for each in (None, True, 0, ["no"], {"no"}, np.array([0.1, 0.9]))),
    ],
)
def test_another_form_is_refused_with_its_number_and_what_is_expected(
    modules: dict[str, Any], name: str, prediction: Any
) -> None:
    right = {"answer_f1": ["x"], "genres": [], "ranking": ["x"], "rejection_rate": "no", "text2kg": []}[name]
    with pytest.raises(DataError, match=r"^Prediction 1, .*, cannot be read: ") as caught:
        modules[name].compute(predictions=[right, prediction], references=[GOLD[name]] * 2)
    assert isinstance(caught.value, ValueError)  # as `evaluate` raises it
    assert modules[name].compute(predictions=[right], references=[GOLD[name]])  # nothing is left of the bad call


@pytest.mark.parametrize(
    ("predictions", "references", "words"),
    [
        ("Paris", [["Paris"]], "of type str"),
        ({"q1": ["Paris"]}, [["Paris"]], "of type dict"),
        ([["Paris"]], None, "references are missing"),
        ([["Paris"], ["Rome"]], [["Paris"]], "2 predictions and 1 references"),
        (np.array([[101, 7], [101, 8]]), [["Paris"]] * 2, "batch_decode"),
        (datasets.Dataset.from_dict({"a": [["Paris"]], "b": [["x"]]}), [["Paris"]], "are a table"),
        ([["Paris"]], ["Paris"], r"Reference 0, 'Paris', .* \['Paris'\] if it is one"),
        ([["Paris"]], [None], "Reference 0, None"),
        ([["Paris"]], [[["Paris"]]], "is not a string"),
        ([["Paris"], "Rome"], [["Paris"]] * 2, "mix texts and lists"),
    ],
)
def test_columns_and_gold_of_another_form_are_refused(
    modules: dict[str, Any], predictions: Any, references: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        modules["answer_f1"].compute(predictions=predictions, references=references)


@pytest.mark.parametrize("answer", ["1.50", "1e5", "null", "true", '{"a": 1}', "007", "12345678901234567890", "\ud800"])
def test_an_answer_that_is_also_json_stays_the_text_that_it_is(modules: dict[str, Any], answer: str) -> None:
    for gold in ([answer], {answer}, np.array([answer], dtype=object)):
        assert modules["answer_f1"].compute(predictions=[[answer]], references=[gold], mode="exact")["answer_f1"] == 1


def test_numbers_are_answers_and_whole_ones_have_no_decimal_point(modules: dict[str, Any]) -> None:
    predictions = [[12], [12.0], [np.int64(12)], np.array([12.0]), [1.5]]
    references = [["12"]] * 4 + [[1.5]]
    assert modules["answer_f1"].compute(predictions=predictions, references=references, mode="exact")["answer_f1"] == 1


def test_mode_rog_exceeds_one_as_its_source_does_and_says_so(
    modules: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    given = {"predictions": [["28, 30"], ["5"]], "references": [["28", "30"], ["5"]], "mode": "rog"}
    found = modules["answer_f1"].compute(**given, return_warnings=True)
    assert found["precision"] == 1.5  # (2 / 1 + 1) / 2
    assert [(each["code"], each["n_examples"]) for each in found[WARNINGS]] == [("precision_above_one", 1)]
    assert "1 of 2 questions have a precision above 1" in caplog.text


def test_genres_says_that_nothing_is_annotated_and_how_many_triples_are_malformed(modules: dict[str, Any]) -> None:
    given = {"predictions": [[["a", "b"], TRIPLE]] * 4, "references": [[TRIPLE]] * 4}
    for mode in ("reference", "fixed", "fixed-2"):
        warnings = modules["genres"].compute(**given, mode=mode, return_warnings=True)[WARNINGS]
        found = {each["code"]: each for each in warnings}
        assert "4 of 8 triples" in found["malformed_triples"]["message"]
        assert found["malformed_triples"]["n_examples"] == 4
        assert "CS, TS, US, FS, GS" in found["not_scored"]["message"]
        assert "kbbench annotate" in found["not_scored"]["remedy"]
    sound = modules["genres"].compute(predictions=[[TRIPLE]], references=[[TRIPLE]], return_warnings=True)
    assert "malformed_triples" not in [each["code"] for each in sound[WARNINGS]]


@pytest.mark.parametrize(
    ("name", "predictions", "references", "code"),
    [
        ("answer_f1", [["Paris"]], [[]], "not_scored"),
        ("rejection_rate", ["no"], ["no"], "not_scored"),
        ("ranking", [[1, 2]], [[]], "empty_gold"),
        ("genres", [[TRIPLE]], [[]], "empty_gold"),
    ],
)
def test_references_without_gold_are_warned_of(
    modules: dict[str, Any], name: str, predictions: Any, references: Any, code: str
) -> None:
    found = modules[name].compute(predictions=predictions, references=references, return_warnings=True)
    assert code in [each["code"] for each in found[WARNINGS]]


def test_the_verbosity_of_datasets_holds_for_the_warnings(
    modules: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    before = datasets.utils.logging.get_verbosity()
    try:
        datasets.utils.logging.set_verbosity_error()
        modules["answer_f1"].compute(predictions=[[]], references=[["x"]])
        assert not caplog.records
        datasets.utils.logging.set_verbosity_warning()
        modules["answer_f1"].compute(predictions=[[]], references=[["x"]])
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
    finally:
        datasets.utils.logging.set_verbosity(before)


def test_trainer_metrics_keeps_finite_numbers_and_says_what_it_leaves_out(caplog: pytest.LogCaptureFixture) -> None:
    result = {"f1": np.float32(0.5), "n": 3, "cs": math.nan, "high": math.inf, "warnings": [], "v": np.ones(2)}
    found = kbbench_hf.trainer_metrics(result)
    assert found == {"f1": 0.5, "n": 3.0} and {type(value) for value in found.values()} == {float}
    assert "cs (nan), high (inf), warnings (list), v (list)" in caplog.text
    caplog.clear()
    assert kbbench_hf.trainer_metrics({"f1": 1}) == {"f1": 1.0} and not caplog.records


def test_trainer_metrics_takes_a_result_of_the_package() -> None:
    gold = [{"id": row["id"], "triples": []} for row in kbbench_hf.load("mini-text2kg", split="test")]
    found = kbbench_hf.trainer_metrics(kbbench_hf.score(gold, "mini-text2kg"))
    assert found["f1"] == 0 and found["n_examples"] == len(gold)


def test_public_name_does_not_import_what_it_does_not_need() -> None:
    code = "import sys, kbbench_hf; kbbench_hf.trainer_metrics({'f1': 1.0}); print('evaluate' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
