import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.building.ska_bench.hybridqa import HybridQuestion, assign_subsets, read_questions
from kbbench_hf.building.ska_bench.source_files import join_tokens
from kbbench_hf.errors import DataError

TABLE = {
    "table": "Horses_0",
    "title": "Horses",
    "section": "Winners",
    "url": "",
    "header": ["Year", "Horse"],
    "rows": [[["1945 ", []], ["Tom 's Star", ["/wiki/Star", "/wiki/Star", "/wiki/Unknown"]]]],
    "passages": {"/wiki/Star": "A horse ( 1945 ) ."},
}
ASKED = {
    "id": "q1",
    "question": "What was Tom 's horse ?",
    "answer": "a horse , and good",
    "table": "Horses_0",
    "row": 0,
    "row_cells_quoted": [1],
    "answer_passages": ["/wiki/Star"],
    "bridge_passages": [],
    "bridge_hits_in_table": 0,
    "answer_in_table": False,
}


def write(folder: Path, table: dict[str, Any], asked: dict[str, Any]) -> Path:
    for name, row in (("tables", table), ("questions", asked)):
        (folder / f"hybridqa_{name}.jsonl.gz").write_bytes(gzip.compress(json.dumps(row).encode()))
    return folder


def test_text_is_written_as_people_write_it(tmp_path: Path) -> None:
    questions, tables = read_questions(write(tmp_path, TABLE, ASKED))
    assert [(question.text, question.answer) for question in questions] == [
        ("What was Tom's horse?", "a horse, and good")
    ]
    table = tables["Horses_0"]
    assert table.rows == (("1945", "Tom's Star"),)
    assert table.links == (((), ("/wiki/Star",)),)  # once, and only where there is a passage
    assert table.passages == {"/wiki/Star": "A horse (1945)."}


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("the states ' rights [ citation needed ] , 5 % of $ 3", "the states' rights, 5% of $3"),
        ("as of 2011 [ update ] , a `` lashkar ''", 'as of 2011, a "lashkar"'),
        ("Was n't he Tom ?", "Wasn't he Tom?"),
    ],
)
def test_tokens_are_joined(tokens: str, text: str) -> None:
    assert join_tokens(tokens) == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row": 7}, "needs row 7 of 'Horses_0'"),
        ({"table": "Cows_0"}, "needs row 0 of 'Cows_0'"),
        ({"row_cells_quoted": None}, "'row_cells_quoted' is None"),
        ({"answer_passages": [7]}, r"'answer_passages' is \[7\]"),
    ],
)
def test_a_question_without_its_row_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_questions(write(tmp_path, TABLE, ASKED | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"header": ["Year", 2]}, r"'header' is \['Year', 2\]"),
        ({"rows": [["1945", "Star"]]}, r"a cell is not \[text, links\]"),
        ({"passages": {"/wiki/Star": 1945}}, "or a passage no text"),
        ({"rows": [[["1945", []]]]}, "a row has not 2 cells"),
    ],
)
def test_a_malformed_table_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_questions(write(tmp_path, TABLE | change, ASKED))


def test_a_question_without_words_stays_one(tmp_path: Path) -> None:
    [question], _ = read_questions(write(tmp_path, TABLE, ASKED | {"question": " "}))
    assert question.text == ""


def test_a_table_belongs_to_one_subset_whatever_else_is_there() -> None:
    def asked(name: str, bridges: tuple[str, ...] = ()) -> HybridQuestion:
        return HybridQuestion(name, "?", "a", name, 0, (), (), bridges, 0, answer_in_table=False)

    plain = [asked(f"table {n}") for n in range(400)]
    alone, together = (assign_subsets(plain[:200]), assign_subsets([*plain, asked("bridged", ("/wiki/B",))]))
    assert {name: together[name] for name in alone} == alone
    share = sum(subset == "table_text" for subset in together.values()) / len(together)
    assert 0.43 < share < 0.57
