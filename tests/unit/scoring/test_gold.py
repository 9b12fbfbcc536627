"""Gold answers are never suggested as predictions, and never scored as such without a word."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks.answers import ANSWERS, IDS, TRIPLES
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.gold_columns import likeness, suggested_map
from kbbench_hf.scoring.predictions import PredictionsError, ReadOptions
from kbbench_hf.scoring.score import score

T2K, SKA, STARK = "mini-text2kg", "mini-ska/noise_table_1k", "mini-stark"
WRONG = [["Zed", "captain", "Nobody"]]
Row = dict[str, Any]


def rows(name: str, row: Callable[[Any, Any], Row]) -> list[Row]:
    """Return a row for each example, made of the example and its gold."""
    asked = load_examples(name)
    column = asked.benchmark.scoring.answer.gold or asked.benchmark.scoring.answer.field
    golds = ((each, each[column]) for each in asked.examples.rows)
    return [
        {"id": each["id"], **row(each, [[t["sub"], t["rel"], t["obj"]] for t in gold] if column == "triples" else gold)}
        for each, gold in golds
    ]


GOLD = (
    "ideal targets gold gold_triples goldTriples groundTruth groundtruth GT references refs reference_outputs.answer "
    "expected expectedOutput labels true_labels answer_key correctAnswers y_true yTrue solutions annotations oracle "
    "actual desired_output best_answer example_answer doc.answers instance.references.0.output.text human_answer "
    "triples_gold target_text acceptable_answers relevant_ids correct_output outputs.gold"
)
PREDICTED = (
    "output predictions response answer generated_text completion modelOutput hyps pred_triples triplesPred y_pred "
    "y_hat generations filtered_resps.0 predicted_label llmResponse actual_output result.completions.0.text "
    "response.candidates.0.content.parts.0.text modelOutput.content.0.text outputs.answer model_answer extraction"
)
OTHER = (
    "id sentence input prompt response_id output_tokens model_name response.body.model finish_reason prediction_score"
)


@pytest.mark.parametrize(("names", "roles"), [(GOLD, {"gold"}), (PREDICTED, {"prediction"}), (OTHER, {"", "other"})])
def test_a_column_is_known_by_the_words_of_its_name(names: str, roles: set[str]) -> None:
    assert {name: likeness(name).role for name in names.split() if likeness(name).role not in roles} == {}


@pytest.mark.parametrize(
    ("row", "kind", "expected"),
    [
        ({"ideal": WRONG, "output": "[]"}, TRIPLES, "response=output. 'ideal' looks like the gold answers."),
        ({"gold": WRONG, "kg": {"relations": [{"head": "a", "tail": "c"}]}}, TRIPLES, "triples=kg.relations."),
        ({"resps": [["a"]], "filtered_resps": ["a"], "target": "b"}, TRIPLES, "response=filtered_resps.0."),
        ({"answer": ["a"], "prediction": ["b"]}, ANSWERS, "answers=prediction."),
        ({"output": "a", "completion": "b"}, TRIPLES, "response=PATH; answers may be at output and completion."),
        ({"expected": WRONG}, TRIPLES, "triples=PATH (for a model's text: response=PATH). 'expected' looks"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, TRIPLES,
         "response=messages.1.content."),
        ({"retrieved": [{"doc_id": 7, "score": 0.5}], "relevant": [3]}, IDS, "ids=retrieved.doc_id."),
    ],
)  # fmt: skip
def test_the_column_of_predictions_is_suggested_and_never_the_gold(row: Row, kind: Any, expected: str) -> None:
    found = suggested_map({"id": "q1", **row}, [kind.field], {"q1"}, kind, has_parser=kind is not IDS)
    assert found.startswith(f"Map your columns: --map {expected}")


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        (T2K, lambda each, gold: {"triples": gold, "pred_triples": WRONG}, "--map triples=pred_triples"),
        (T2K, lambda each, gold: {"triples": gold, "output": json.dumps(WRONG)}, "--map response=output"),
        (T2K, lambda each, gold: {"triples": gold, "response": json.dumps(WRONG)}, "--map response=response"),
        (T2K, lambda each, gold: {"triples": WRONG, "predictedTriples": []}, "'triples' or in 'predictedTriples'"),
        (SKA, lambda each, gold: {"answers": gold, "prediction": ["x"]}, "equals the gold answer in 17 of 17"),
        (STARK, lambda each, gold: {"ids": gold, "retrieved": [1, 2]}, "--map ids=retrieved"),
        (T2K, lambda each, gold: {"triples": gold, "sent": each["sentence"]}, "--map triples=PATH"),
    ],
)
def test_a_file_whose_predictions_may_be_in_another_column_is_refused(name: str, row: Any, expected: str) -> None:
    with pytest.raises(PredictionsError, match=expected):
        score(rows(name, row), name)


@pytest.mark.parametrize(
    ("name", "row", "fields", "codes"),
    [
        (T2K, lambda each, gold: {"ideal": gold}, {"triples": "ideal"}, [("equals_gold", "warning")]),
        (T2K, lambda each, gold: {"ideal": gold[::-1] + WRONG}, {"triples": "ideal"}, [("gold_column", "warning")]),
        (T2K, lambda each, gold: {"triples": gold}, None, [("equals_gold", "note")]),
        (T2K, lambda each, gold: {"triples": gold, "salida": WRONG}, None, [("equals_gold", "warning")]),
        (T2K, lambda each, gold: {"oro": gold, "output": "[]"}, {"triples": "oro"}, [("equals_gold", "warning")]),
        (SKA, lambda each, gold: {"answers": gold, "q": each["question"]}, None, [("equals_gold", "warning")]),
        (SKA, lambda each, gold: {"answers": [f"the {gold[0]}", *gold[1:]]}, None, []),
        (STARK, lambda each, gold: {"ids": [*gold, *({*range(40)} - {*gold})]}, None, [("equals_gold", "note")]),
        (STARK, lambda each, gold: {"ids": [*gold[::-1], *({*range(40)} - {*gold})]}, None, []),
        (T2K, lambda each, gold: {"triples": WRONG, "response": json.dumps(WRONG)}, None, []),
        (T2K, lambda each, gold: {"triples": [[s, o, r] for s, r, o in gold]}, None, [("part_order", "warning")]),
        (T2K, lambda each, gold: {"triples": [triple[::-1] for triple in gold]}, None, [("part_order", "warning")]),
    ],
)
def test_answers_that_equal_the_gold_are_warned_of(name: str, row: Any, fields: Any, codes: Any) -> None:
    found = score(rows(name, row), name, options=ReadOptions(fields=fields)).warnings
    of_gold = ("equals_gold", "gold_column", "part_order")
    assert [(each.code, each.severity) for each in found if each.code in of_gold] == codes


def test_the_suggested_map_reads_the_predictions(tmp_path: Path) -> None:
    found = rows(T2K, lambda each, gold: {"ideal": gold, "output": json.dumps(WRONG)})
    with pytest.raises(PredictionsError, match="--map response=output"):
        score(found, T2K)
    read = score(found, T2K, options=ReadOptions(fields={"response": "output"}))
    assert read.scores["f1"].value == 0 and not [each for each in read.warnings if "gold" in each.code]


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        (T2K, lambda each, gold: {"oro": gold, "salida": WRONG}, "triples=salida. 'oro' equals the gold answers."),
        (T2K, lambda each, gold: {"正解": gold, "予測": json.dumps(WRONG)}, "'response=予測'. '正解' equals"),
        (T2K, lambda each, gold: {"std_answer": gold, "m": WRONG}, "triples=m. 'std_answer' equals"),
        (SKA, lambda each, gold: {"silver": json.dumps(gold), "answer": "x"}, "response=answer. 'silver' equals"),
        (STARK, lambda each, gold: {"qid": each["id"], "id": "x", "a": gold, "b": [1]}, "id=qid,ids=b. 'a' equals"),
        (T2K, lambda each, gold: {"output": gold}, "triples=output. 'output' equals"),  # a perfect system
        (T2K, lambda each, gold: {"ext": gold[:1] if each["id"].endswith("1") else WRONG}, "triples=ext.$"),
    ],
)
def test_a_column_that_equals_the_gold_is_not_suggested_whatever_its_name(name: str, row: Any, expected: str) -> None:
    with pytest.raises(PredictionsError, match=f"--map {expected}"):
        score(rows(name, row), name)
