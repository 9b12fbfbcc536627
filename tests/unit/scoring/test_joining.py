"""Predictions without ids: joined with the examples by the text of the input, or by order."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.scoring.options import ReadOptions
from kbbench_hf.scoring.predictions import PredictionsError, read_predictions

TEXTS = ["The Petrel is captained by Ines Calder.", "The Whimbrel was built in 1890.", "Hallan Quay is a harbor."]
EXAMPLES = Examples([{"id": f"s{n}", "sentence": text, "relations": []} for n, text in enumerate(TEXTS)])
ANSWERS = [[["Petrel", "captain", f"Ines Calder {name}"]] for name in ("Senior", "Junior", "Minor")]


def read(path: Path, rows: Sequence[object], **options: object) -> tuple[list[object], list[str]]:
    file = path / "predictions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    predictions = read_predictions([file], benchmark("mini-text2kg"), EXAMPLES, ReadOptions(**options))
    return [answer and [list(triple) for triple in answer] for answer in predictions.answers], [
        note.code for note in predictions.notes
    ]


def chat(number: int) -> dict[str, object]:
    prompt = f"Extract triples.\nSentence: {TEXTS[(number + 1) % 3]}\nTriples: []\nSentence: {TEXTS[number]}\nTriples:"
    reply = json.dumps(ANSWERS[number])
    return {"messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]}


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ([{"text": f' "{text.upper()}"', "triples": ANSWERS[n]} for n, text in enumerate(TEXTS)], {"join": "input"}),
        ([{"triples": each} for each in ANSWERS], {"join": "order"}),
        ([chat(n) for n in range(3)], {"join": "input", "fields": {"response": "messages[-1].content"}}),
    ],
)
def test_rows_without_ids_are_joined_and_a_note_says_so(
    tmp_path: Path, rows: list[object], options: dict[str, object]
) -> None:
    assert read(tmp_path, rows, **options) == (ANSWERS, ["joined"])
    if options["join"] == "input":
        assert read(tmp_path, rows[::-1], **options)[0] == ANSWERS


@pytest.mark.parametrize(
    ("rows", "join", "message"),
    [
        ([{"triples": each} for each in ANSWERS[:2]], "order", "2 rows without ids, for 3 examples"),
        ([{"triples": each} for each in [*ANSWERS, ANSWERS[0]]], "order", "row 4, for 3 examples"),
        (
            [{"sentence": TEXTS[n], "triples": ANSWERS[n]} for n in (0, 2, 1)],
            "order",
            "row 2 has the input of example 's2', not of 's1'.*--join input",
        ),
        ([{"text": "Another text.", "triples": []}], "input", "no text of this row is the input of an example"),
    ],
)
def test_rows_that_cannot_be_joined_are_refused(tmp_path: Path, rows: list[object], join: str, message: str) -> None:
    with pytest.raises(PredictionsError, match=f"(?s){message}"):
        read(tmp_path, rows, join=join)


def test_an_input_of_two_examples_is_refused(tmp_path: Path) -> None:
    twins = Examples([{"id": name, "sentence": TEXTS[0], "relations": []} for name in ("a", "b")])
    (file := tmp_path / "p.jsonl").write_text(2 * (json.dumps({"sentence": TEXTS[0], "triples": []}) + "\n"))
    with pytest.raises(PredictionsError, match="2 examples have the input of this row: 'a', 'b'"):
        read_predictions([file], benchmark("mini-text2kg"), twins, ReadOptions(join="input"))


def test_the_message_about_missing_ids_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(PredictionsError, match="--join input, or --join order"):
        read(tmp_path, [{"sentence": text, "triples": []} for text in TEXTS])
