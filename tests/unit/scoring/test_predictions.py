"""Predictions are read strictly, every problem is named with its line, and answers are paired by id."""

import gzip
import json
import random
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.benchmarks.answers import ANSWERS, IDS, TRIPLES, Answer
from kbbench_hf.benchmarks.base import Asking, Benchmark, Data, Example, Examples, Facts, Scores, Scoring, no_problem
from kbbench_hf.errors import UsageError
from kbbench_hf.files.json_lines import check_plain, parse
from kbbench_hf.files.rows import KeyedAnswer
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.scoring.predictions import Predictions, PredictionsError, ReadOptions, read_predictions
from kbbench_hf.scoring.rows import shown


def parse_words(text: str, example: Example) -> ParsedReply[Answer]:
    if "?" in text:
        raise ParseError("no answer")
    return ParsedReply(text.split(), "words")


KINDS = {kind.field: kind for kind in (ANSWERS, IDS, TRIPLES)}


def toy(answer: str = "answers") -> Benchmark:
    return Benchmark(
        Facts("toy", "Toy"),
        Data(("default",), ("test",), "test", load=lambda folder, config, split: EXAMPLES),
        Scoring(
            KINDS[answer],
            {"accuracy": "Acc"},
            ("reference",),
            score=lambda examples, answers, mode: Scores({"accuracy": np.zeros(len(answers))}),
            check=lambda examples, example_id, found: "too many answers" if len(found) > 5 else None,
        ),
        Asking(parsers={"words": parse_words} if answer != "ids" else {}),
    )


EXAMPLES = Examples([{"id": "q1"}, {"id": "q2"}, {"id": "q3"}])


def write(path: Path, *lines: object) -> Path:
    file = path / "predictions.jsonl"
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return file


def read(file: Path, answer: str = "answers", **options: object) -> Predictions:
    return read_predictions([file], toy(answer), EXAMPLES, ReadOptions(**options))


def test_a_row_is_shown_in_its_own_letters_on_one_line() -> None:
    assert shown({"id": "ü", "answers": [1]}) == '{"id": "ü", "answers": [1]}'
    assert shown(KeyedAnswer("ü", ["\n"])) == '{"ü": ["\\n"]}'
    assert shown({"day": date(2026, 1, 2)}) == '{"day": "2026-01-02"}'
    assert shown("x" * 158) == f'"{"x" * 158}"'
    assert shown("x" * 159) == f'"{"x" * 156}...'
    nested: list[object] = []
    nested.append(nested)
    assert shown(nested) == ""


def test_answers_are_paired_by_id_never_by_position(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "q3", "answers": ["c"]}, {"id": "q1", "answers": ["a"]})
    assert read(file).answers == [["a"], None, ["c"]]


def test_the_hash_is_of_the_answers_not_of_the_file(tmp_path: Path) -> None:
    one = read(write(tmp_path, {"id": "q3", "answers": ["c"]}, {"id": "q1", "answers": ["a"]}))
    other = read(write(tmp_path, {"answers": ["a"], "id": "q1", "note": 1}, {"id": "q3", "answers": ["c"]}))
    assert one.sha256(EXAMPLES, "answers") == other.sha256(EXAMPLES, "answers")
    third = read(write(tmp_path, {"id": "q1", "answers": ["b"]}, {"id": "q3", "answers": ["c"]}))
    assert third.sha256(EXAMPLES, "answers") != one.sha256(EXAMPLES, "answers")


def test_an_unknown_id_is_an_error_that_shows_what_ids_look_like(tmp_path: Path) -> None:
    with pytest.raises(PredictionsError, match=r"predictions\.jsonl:1: id 'q9' matches no example") as caught:
        read(write(tmp_path, {"id": "q9", "answers": []}))
    assert "Ids look like 'q1'" in str(caught.value)


def test_a_repeated_id_is_an_error_unless_the_last_counts(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "q1", "answers": ["old"]}, {"id": "q1", "answers": ["new"]})
    with pytest.raises(PredictionsError, match=r"occurs at predictions\.jsonl:1 already(?s:.*)--duplicates last"):
        read(file)
    last = read(file, duplicates="last")
    assert (last.answers[0], last.n_duplicates) == (["new"], 1)


def test_a_repaired_duplicate_is_no_longer_a_parse_failure(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "q1", "response": "?"}, {"id": "q1", "response": "a b"})
    assert read(file, duplicates="last").parse_failures == []


def test_a_missing_prediction_is_none_and_refused_where_all_are_needed(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "q1", "answers": []})
    assert read(file).n_missing == 2
    with pytest.raises(PredictionsError, match="2 of 3 missing: q2, q3"):
        read(file, partial=False)


def test_the_parsed_answer_wins_unless_the_response_is_asked_for(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "q1", "answers": ["parsed"], "response": "from text"})
    assert read(file).answers[0] == ["parsed"]
    assert read(file, source="response").answers[0] == ["from", "text"]


def test_a_response_without_an_answer_is_empty_and_counted(tmp_path: Path) -> None:
    found = read(write(tmp_path, {"id": "q2", "response": "what?"}))
    assert (found.answers[1], found.parse_failures) == ([], ["q2"])


def test_what_a_model_wrote_is_scored_not_refused(tmp_path: Path) -> None:
    assert read(write(tmp_path, {"id": "q1", "response": "a b c d e f"})).answers[0] == list("abcdef")


def test_an_example_that_failed_is_missing_and_counted(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "q1", "error": "timeout"}, {"id": "q2", "answers": ["b"]})
    found = read(file)
    assert (found.answers, found.n_errors, found.n_missing) == ([None, ["b"], None], 1, 2)


def test_every_problem_is_reported_with_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, "{", {"id": "q1", "answers": ["a"]}, '{"id": "q2", "id": "q3"}', [1], {"answers": []},
                 {"id": True, "answers": []}, {"id": "q2", "answers": "a"}, {"id": "q3", "answers": [None]},
                 {"id": "q2"}, {"id": "q3", "answers": list("abcdef")}, '{"id": "q2", "answers": [NaN]}')  # fmt: skip
    with pytest.raises(PredictionsError) as caught:
        read(file)
    assert [problem.line for problem in caught.value.problems] == [1, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert caught.value.exit_code == 65


def test_only_twenty_problems_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    with pytest.raises(PredictionsError, match=r"30 problems in the predictions(?s:.*)and 10 more"):
        read(write(tmp_path, *[{"id": f"x{n}", "answers": []} for n in range(30)]))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"ids": [1, 2], "scores": [0.1, 0.2]}, "rises at position 1"),
        ({"ids": [1, 2], "scores": [0.1]}, "one number for each"),
        ({"ids": [1, 2], "scores": [1, "a"]}, "not a finite number"),
        ({"ids": [1.5]}, "neither an integer nor a string"),
        ({"ids": [True]}, "neither an integer nor a string"),
        ({"response": "1"}, "takes 'ids'"),
    ],
)
def test_a_malformed_ranking_is_refused(tmp_path: Path, row: dict[str, object], problem: str) -> None:
    with pytest.raises(PredictionsError, match=problem):
        read(write(tmp_path, {"id": "q1", **row}), "ids")


def test_triples_may_be_lists_or_objects(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "q1", "triples": [["s", "r", "o"], {"sub": "s", "rel": "r", "obj": "o"}]})
    assert read(file, "triples").answers[0] == [["s", "r", "o"]] * 2
    file = write(tmp_path, {"id": "q1", "triples": [{"head": "s", "type": "r", "tail": "o"}]})  # as REBEL has them
    assert read(file, "triples").answers[0] == [["s", "r", "o"]]
    with pytest.raises(PredictionsError, match="None"):
        read(write(tmp_path, {"id": "q1", "triples": [{"head": "s", "type": "r", "tail": "o", "p": None}]}), "triples")
    with pytest.raises(PredictionsError, match="expected \\[subject, relation, object\\]"):
        read(write(tmp_path, {"id": "q1", "triples": [["s", "r"]]}), "triples")


def test_gzip_and_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"id": "q1", "answers": ["a"]}\n'))
    (tmp_path / "b.jsonl").write_text('{"id": "q2", "answers": ["b"]}\n')
    assert read(tmp_path).answers == [["a"], ["b"], None]


def test_of_a_folder_with_two_formats_neither_is_left_out_in_silence(tmp_path: Path) -> None:
    write(tmp_path, {"id": "q1", "answers": ["a"]}).rename(tmp_path / "first.jsonl")
    (tmp_path / "rest.csv").write_text("id,answers\nq2,b\n")
    with pytest.raises(UsageError, match=r"first\.jsonl and rest\.csv"):
        read(tmp_path)


def test_a_truncated_gzip_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"id": "q1", "answers": ["a"]}\n' * 100)
    (tmp_path / "a.jsonl.gz").write_bytes(whole[:-10])
    with pytest.raises(PredictionsError, match="cannot be read"):
        read(tmp_path, duplicates="last")


def test_a_path_without_predictions_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \.jsonl file"):
        read(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        read(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="Unknown parser"):
        read(write(tmp_path, {"id": "q1", "response": ""}), parser="word")


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe", b"[" * 100_000, b'{"a": ', b"{'a': 1}", b'{"a": Infinity}', b"[" * 9 + b"]" * 9, b"1" * 5000],
)
def test_json_traps_are_value_errors_in_words(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w+ "):
        check_plain(parse(line))


def test_mutated_files_never_crash_the_reader(tmp_path: Path) -> None:
    generator = random.Random(11)  # seed 11
    whole = b"".join(
        json.dumps({"id": f"q{n}", "answers": ["a", "b"], "scores": [1.5]}).encode() + b"\n" for n in (1, 2, 3)
    )
    file = tmp_path / "predictions.jsonl"
    for _ in range(500):
        mutated = bytearray(whole)
        for _ in range(generator.randint(1, 6)):
            mutated[generator.randrange(len(mutated))] = generator.randrange(256)
        file.write_bytes(bytes(mutated[: generator.randint(1, len(mutated))]))
        try:
            assert len(read(file, duplicates="last").answers) == 3
        except PredictionsError as error:
            assert error.problems


def test_a_ranking_of_a_whole_knowledge_base_is_one_line_of_ones_own_file(tmp_path: Path) -> None:
    ids = list(range(200_000))
    file = write(tmp_path, {"id": "q1", "ids": ids})
    with pytest.raises(PredictionsError, match="longer than 1,000,000 bytes"):
        read_predictions([file], toy("ids"), EXAMPLES, ReadOptions(max_bytes=10**8))
    benchmark = toy("ids")
    benchmark = replace(benchmark, scoring=replace(benchmark.scoring, check=no_problem))
    assert read_predictions([file], benchmark, EXAMPLES).answers[0] == ids
