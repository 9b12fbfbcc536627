"""`evaluate.load("metrics/genres")` gives the figures of `kbbench score`."""

import json
import math
from pathlib import Path

import evaluate
import pytest

from kbbench_hf.benchmarks import shipped_answers, shipped_dataset
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext
from kbbench_hf.building.genres.release import text_id
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files import annotations_folder
from kbbench_hf.runners.judge import annotate_verdicts, judge_by_name
from kbbench_hf.scoring.score import score

ROOT = Path(__file__).parents[2]


@pytest.fixture
def genres() -> "evaluate.Metric":
    return evaluate.load(str(ROOT / "metrics" / "genres"))


@pytest.mark.parametrize("mode", ["reference", "fixed", "fixed-2"])
def test_the_module_agrees_with_the_command_to_the_last_bit(genres: "evaluate.Metric", mode: str) -> None:
    rows = shipped_dataset("mini-genres").rows("sentences", "test")
    for file in shipped_answers("mini-genres"):
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        found = genres.compute(
            predictions=[line["triples"] for line in lines],
            references=[[[t["sub"], t["rel"], t["obj"]] for t in row["triples"]] for row in rows],
            texts=[row["text"] for row in rows],
            annotations=str(annotations_folder(file)),
            mode=mode,
            return_ci=True,
        )
        wanted = score(file, "mini-genres", mode=mode).scores
        for metric, figure in wanted.items():
            assert found[metric] == figure.value, metric
            assert found[f"{metric}_n_scored"] == figure.n_scored
            assert (found[f"{metric}_ci95_low"], found[f"{metric}_ci95_high"]) == figure.ci95


def test_what_has_no_annotation_is_not_scored(genres: "evaluate.Metric") -> None:
    found = genres.compute(predictions=[[["a", "r", "b"]]], references=[[["a", "r", "b"]]])
    assert math.isnan(found["completeness"]) and found["completeness_n_scored"] == 0
    assert found["f1"] == 1.0


def test_figures_of_a_judge_come_with_how_far_it_can_be_trusted(genres: "evaluate.Metric", tmp_path: Path) -> None:
    text, triples = "Ada wrote programs .", [["Ada", "wrote", "programs"]]
    rows = [{"id": text_id(text), "text": text, "triples": [], "triples_stated": []}]
    judge = judge_by_name("surface", "factualness", "own")
    annotate_verdicts(Examples(rows, CorpusContext("own", ())), [triples], tmp_path, "factualness", judge, show=False)
    given = {"predictions": [triples], "references": [triples], "texts": [text], "annotations": str(tmp_path)}
    found = genres.compute(**given, return_warnings=True)
    assert found["factualness"] == 1.0
    assert "judge_agreement" in [each["code"] for each in found["warnings"]]


def test_annotations_need_texts_and_one_for_each_document(genres: "evaluate.Metric", tmp_path: Path) -> None:
    triples = [[["a", "r", "b"]]]
    with pytest.raises(UsageError, match="Give texts as well"):
        genres.compute(predictions=triples, references=triples, annotations=str(tmp_path))
    with pytest.raises(UsageError, match="2 texts for 1 predictions"):
        genres.compute(predictions=triples, references=triples, texts=["a", "b"])
    with pytest.raises(UsageError, match="Did you mean 'fixed'"):
        genres.compute(predictions=triples, references=triples, mode="fix")


@pytest.mark.parametrize("odd", [["a", 1, "b"], ["a", None, "b"], ["a", ["r"], "b"], ["a", "r"]])
def test_an_element_that_is_no_string_changes_nothing_about_the_others(genres: "evaluate.Metric", odd: list) -> None:
    found = genres.compute(
        predictions=[[odd, ["c", "r", "d"]], [("e", "r", "f")]],
        references=[[["c", "r", "d"]], [["e", "r", "f"]]],
    )
    assert found["recall"] == 1.0
    assert found["precision"] == 0.75  # (1/2 + 1) / 2


def test_a_gold_triple_of_two_elements_is_refused(genres: "evaluate.Metric") -> None:
    with pytest.raises(DataError, match="document 1; expected"):
        genres.compute(predictions=[[], []], references=[[], [["a", "b"]]])


def test_the_best_constant_stands_beside_closed_answers(genres: "evaluate.Metric") -> None:
    gold = [[["a", "r", "b"]], [["c", "r", "d"]], [["e", "s", "f"]]]
    found = genres.compute(predictions=gold, references=gold, return_warnings=True)
    [warning] = [each for each in found["warnings"] if each["code"] == "constant_answer"]
    assert warning["beside"]["f1"] == pytest.approx(2 / 3) and found["f1"] == 1.0
