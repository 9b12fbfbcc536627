"""Triples copied from the demonstrations of a prompt: what counts as copied, and where the count is shown."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks.base import PromptOptions
from kbbench_hf.benchmarks.text2kgbench.prompts import choose
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.scoring.eval_task import EvalTask, load_examples
from kbbench_hf.scoring.score import score
from kbbench_hf.scoring.warnings import copied_triple_warnings

NAME = "mini-text2kg"
OPTIONS = {name: value for name, value in asdict(PromptOptions()).items() if name != "mode"}
SETTINGS: dict[str, Any] = {"prompt": "current", "prompt_options": OPTIONS}


def shown(task: EvalTask, example: dict[str, Any]) -> tuple[str, str, str]:
    """Return a triple of an example's demonstration."""
    demonstrations = task.examples.context.demonstrations
    row = choose(example, demonstrations, PromptOptions())[0]
    triple = demonstrations.triples_by_sentence[row["ontology_id"], row["sentence"]][0]
    return triple["sub"], triple["rel"], triple["obj"]


def gold(example: dict[str, Any]) -> list[list[str]]:
    return [[each["sub"], each["rel"], each["obj"]] for each in example["triples"]]


def warned(task: EvalTask, answers: list[Any], **changes: Any) -> list[ScoreWarning]:
    return copied_triple_warnings(task, answers, {**SETTINGS, **changes})


def test_a_triple_with_a_name_of_the_demonstration_only_is_copied() -> None:
    task = load_examples(NAME, limit=4)
    first, second, third, _ = task.examples.rows
    sub, rel, obj = shown(task, first)
    mixed = [first["triples"][0]["sub"], rel, shown(task, second)[2]]
    answers = [[[sub, rel, obj], *gold(first)], [mixed, *gold(second)], gold(third), None]
    (warning,) = warned(task, answers)
    assert warning.message.startswith("2 of 5 predicted triples (40.0%) have a subject or object that is in the")
    assert re.search(r"\. Without them: F1 0\.\d{4} \(\+0\.\d{4}\), .*SH 0\.\d{4} \(-0\.\d{4}\)", warning.message)
    assert (warning.n_examples, warning.severity) == (2, "warning")
    assert "--demonstrations none --structured, another" in warning.remedy
    assert "--demonstrations none, another" in warned(task, answers, structured=True)[0].remedy
    assert warning.effect["f1"] > 0.1 > -0.1 > warning.effect["subject_hallucination"]


@pytest.mark.parametrize(
    "name", ["the PETREL", "Calder", "Ines  Calder", "lighthouse", "captain", "somebody else", "!", ""]
)
def test_names_of_the_input_of_the_instructions_and_of_the_models_own_are_not_copied(name: str) -> None:
    task = load_examples(NAME, limit=1)  # "The Petrel is captained by Ines Calder.", with "Heron's Luck" shown
    assert warned(task, [[[name, "captain", "Ines Calder"]]]) == []


def test_a_date_of_the_input_in_another_form_is_not_copied() -> None:
    task = load_examples(NAME, limit=1)
    row = task.examples.rows[0]
    train = task.examples.context.demonstrations.rows[row["similar_ids"][0]]
    train["sentence"] += " On 1904-05-03."
    row["sentence"] += " On 3 May 1904."
    assert warned(task, [[["Petrel", "inception", "1904-05-03"]]]) == []
    assert warned(task, [[["Petrel", "inception", "1904-05-04"]]]) == []  # in neither
    row["sentence"] = row["sentence"].replace("3 May", "4 May")
    assert len(warned(task, [[["Petrel", "inception", "1904-05-03"]]])) == 1


def test_prompts_without_demonstrations_other_prompts_and_few_copies() -> None:
    task = load_examples(NAME, limit=1)
    copied = [list(shown(task, task.examples.rows[0]))]
    for options in ({"demonstrations": "none"}, {"shots": 0}):
        assert warned(task, [copied], prompt_options={**OPTIONS, **options}) == []
    assert warned(task, [copied], prompt="unknown") == [] == copied_triple_warnings(task, [copied], {})
    (few,) = warned(task, [copied + gold(task.examples.rows[0]) * 49])
    assert few.severity == "note"
    assert "(2.0%)" in few.message


def test_open_extraction_has_its_own_demonstration_and_remedy() -> None:
    task = load_examples("mini-genres", limit=2)
    answers = [[["Solveig", "built in", "Turku"]], [["Solveig", "opened in", "1891"]]]
    (warning,) = warned(task, answers, prompt="open")
    assert (warning.n_examples, "--demonstrations" in warning.remedy) == (2, False)


def test_a_run_folder_is_scored_with_its_copies_whenever_it_was_made(tmp_path: Path) -> None:
    """A stored count gives way to today's, except where an embedder selected the demonstrations."""
    task = load_examples(NAME, limit=2)
    lines = [{"id": row["id"], "triples": [shown(task, row)]} for row in task.examples.rows]
    (tmp_path / "predictions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    stored = ScoreWarning("copied_triples", "7 of 9 predicted triples.").to_dict()
    settings = {**task.settings(), "n_examples": 2, "model": "m", **SETTINGS}

    def messages(**changes: Any) -> list[str]:
        (tmp_path / "run.json").write_text(json.dumps({"settings": {**settings, **changes}, "warnings": [stored]}))
        return [each.message for each in score(tmp_path).warnings if each.code == "copied_triples"]

    (message,) = messages()
    assert message.startswith("2 of 2 predicted triples (100.0%)")
    assert messages(similar_by="an-embedder@1") == ["7 of 9 predicted triples."]
    assert messages(prompt_options={**OPTIONS, "demonstrations": "none"}) == []
    assert replace(ScoreWarning.of(stored), message=message).inseparable
