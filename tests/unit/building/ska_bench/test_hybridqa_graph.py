"""Subset `kg_text` on made-up tables of clubs in HybridQA's layout: which questions are kept, and on which evidence."""

import gzip
import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbbench_hf.benchmarks.ska_bench.units import Instance, UnitPool
from kbbench_hf.building.ska_bench import hybridqa, hybridqa_graph
from kbbench_hf.building.ska_bench.evidence import Evidence
from kbbench_hf.building.ska_bench.hybridqa import assign_subsets, read_questions
from kbbench_hf.building.ska_bench.hybridqa_graph import TableGraph, make_instances

PLACES = ("Ardal", "Bergby", "Cronholm", "Dunvik")
CRAFTS = ("glass", "leather", "cider", "clocks")
SAINTS = ("Olaf", "Brigid", "Cuthbert", "Dunstan")


def table(n: int) -> dict[str, Any]:
    """Four clubs, each with its town and founding year; pages of clubs name patrons, pages of towns name crafts."""
    rows, passages = [], {}
    for place, craft, saint in zip(PLACES, CRAFTS, SAINTS, strict=True):
        club, town = f"{place} Rovers {n}x", f"{place}ton {n}x"
        rows.append(
            [
                [club, [f"/wiki/{club.replace(' ', '_')}"]],
                [town, [f"/wiki/{town.replace(' ', '_')}"]],
                ["1" + str(700 + n), []],
            ]
        )
        passages[f"/wiki/{club.replace(' ', '_')}"] = (
            f"The side venerates Saint {saint} {n}x with lanterns of number {n}x ."
        )
        passages[f"/wiki/{town.replace(' ', '_')}"] = (
            f"A settlement known for {craft} workshops beside harbour {n}x{craft} ."
        )
    return {
        "table": f"League_{n}", "title": "Northern Division", "section": "Sides", "url": "",
        "header": ["Club", "Town", "Founded"], "rows": rows, "passages": passages,
    }  # fmt: skip


def asked(n: int, **changes: Any) -> dict[str, Any]:
    """Ask for the patron of the club of a town: quoted cell, answer in the club's page."""
    return {
        "id": f"q{n}", "question": f"Which saint does the club from the town Bergbyton {n}x venerate ?",
        "answer": f"Saint Brigid {n}x", "table": f"League_{n}", "row": 1, "row_cells_quoted": [1],
        "answer_passages": [f"/wiki/Bergby_Rovers_{n}x"], "bridge_passages": [], "bridge_hits_in_table": 0,
        "answer_in_table": False, **changes,
    }  # fmt: skip


def write(folder: Path, tables: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, records in (("tables", tables), ("questions", rows)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"hybridqa_{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return folder


@pytest.fixture
def numbers(tmp_path: Path) -> list[int]:
    """Numbers of tables that belong to kg_text."""
    folder = write(tmp_path / "all", [table(n) for n in range(40)], [asked(n) for n in range(40)])
    return [
        int(name.split("_")[1])
        for name, subset in assign_subsets(read_questions(folder)[0]).items()
        if subset == "kg_text"
    ]


def made(folder: Path, numbers: list[int], changes: dict[str, Any]) -> tuple[Instance | None, UnitPool]:
    """Return the instance of the first table's question, so changed, or None; the others are asked as they are."""
    rows = [asked(numbers[0], **changes), *map(asked, numbers[1:])]
    release = make_instances(write(folder / "changed", [table(n) for n in numbers], rows))
    instances = {instance.source_id: instance for instance in release.instances}
    assert len(instances) >= len(numbers) - 2
    return instances.get(f"q{numbers[0]}"), release.pools["kg_text"]


def test_a_quoted_cell_and_the_page_with_the_answer_are_the_evidence(tmp_path: Path, numbers: list[int]) -> None:
    n = numbers[0]
    instance, pool = made(tmp_path, numbers, {})
    assert instance
    assert instance.answers == (f"Saint Brigid {n}x",)
    assert [pool.sk["hybridqa"][number] for number in instance.positive_sk] == [
        (f"Bergby Rovers {n}x", "Town", f"Bergbyton {n}x")
    ]
    assert [pool.text[number][0] for number in instance.positive_text] == [f"Bergby Rovers {n}x"]
    assert instance.split_key == f"League_{n}"
    assert Evidence(pool).problems(instance) == []


def test_a_cell_that_answers_is_found_by_what_a_page_says(tmp_path: Path, numbers: list[int]) -> None:
    n = numbers[0]
    question = f"Which club is of the settlement with leather workshops beside harbour {n}xleather ?"
    told = {"row_cells_quoted": [], "answer_passages": [], "answer_in_table": True}
    instance, pool = made(tmp_path, numbers, told | {"question": question, "answer": f"Bergby Rovers {n}x"})
    assert instance
    assert instance.answers == (f"Bergby Rovers {n}x",)
    assert [pool.text[number][0] for number in instance.positive_text] == [f"Bergbyton {n}x"]


@pytest.mark.parametrize(("club", "n_listed"), [("Bergby Rovers {n}x", 0), ("the club", 1)])
def test_the_list_of_a_row_is_needed_where_the_question_does_not_name_the_row(
    club: str, n_listed: int, tmp_path: Path, numbers: list[int]
) -> None:
    n = numbers[0]
    question = (
        f"Which saint does {club.format(n=n)} of the Division from the town Bergbyton {n}x venerate with lanterns ?"
    )
    instance, pool = made(tmp_path, numbers, {"question": question})
    assert instance
    relations = [pool.sk["hybridqa"][number][1] for number in instance.positive_sk]
    assert relations.count("listed in") == n_listed and "Town" in relations


def test_a_second_page_is_needed_where_it_holds_words_of_the_question(tmp_path: Path, numbers: list[int]) -> None:
    n = numbers[0]
    question = f"Which saint does the club venerate whose town has leather workshops beside harbour {n}xleather ?"
    told = {"row_cells_quoted": [], "bridge_passages": [f"/wiki/Bergbyton_{n}x"], "bridge_hits_in_table": 1}
    instance, pool = made(tmp_path, numbers, told | {"question": question})
    assert instance
    assert [pool.text[number][0] for number in instance.positive_text] == [f"Bergby Rovers {n}x", f"Bergbyton {n}x"]
    assert len(instance.positive_sk) == 1


def test_the_title_of_a_page_that_begins_with_the_answer_is_another_name_of_it(
    tmp_path: Path, numbers: list[int]
) -> None:
    n = numbers[0]
    instance, _ = made(tmp_path, numbers, {"answer": "The side", "question": f"What club is of Bergbyton {n}x ?"})
    assert instance
    assert instance.answer_aliases == ((f"Bergby Rovers {n}x",),)


@pytest.mark.parametrize(
    "changes",
    [
        {"question": "Which saint does the oldest club from the town Bergbyton {n}x venerate ?"},  # an order
        {
            "question": "Which saint does this club from the town Bergbyton {n}x venerate ?"
        },  # what is meant is elsewhere
        {"question": "Does the club from Bergbyton {n}x venerate Saint Brigid {n}x ?"},  # the answer is in the question
        {
            "question": "Which saint of unheard parishes does Bergbyton {n}x esteem in summer ?"
        },  # words that nothing holds
        {"question": "Which saint does the 9th club, from the town Bergbyton {n}x, venerate ?"},  # nor a number
    ],
)
def test_a_question_is_left_out(changes: dict[str, str], tmp_path: Path, numbers: list[int]) -> None:
    n = str(numbers[0])
    instance, _ = made(tmp_path, numbers, {name: text.replace("{n}", n) for name, text in changes.items()})
    assert instance is None


def test_a_pronoun_may_refer_to_what_the_question_names(tmp_path: Path, numbers: list[int]) -> None:
    question = f"Which saint does the club from the town Bergbyton {numbers[0]}x venerate with their lanterns ?"
    assert made(tmp_path, numbers, {"question": question})[0]


def test_a_row_called_by_a_description_is_asked_for_nothing(
    tmp_path: Path, numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made(tmp_path, numbers, {})[0]
    monkeypatch.setattr(hybridqa_graph, "MOST_NAME_WORDS", 2)
    assert make_instances(tmp_path / "changed").instances == []


def test_evidence_of_texts_alone_is_none_and_that_with_most_triples_comes_first(
    tmp_path: Path, numbers: list[int]
) -> None:
    n = numbers[0]
    _, tables = read_questions(write(tmp_path / "one", [table(n)], [asked(n)]))
    graph = TableGraph.from_table(tables[f"League_{n}"])
    assert graph
    graphs = hybridqa_graph.TableGraphs({"League": graph})
    told, town = ["?town", "says", "leather"], ["?club", "Town", "?town"]
    for where, n_triples in (([told], []), ([told, town], [1]), ([told, town, ["?club", "Founded", "?y"]], [2])):
        program = {"type": "match", "find": "?town", "where": where}
        instance = Instance("q", "kg_text", "?", (f"Bergbyton {n}x",), "hybridqa", program=program)
        found = list(graphs.add_units(instance))
        assert [len(each.positive_sk) for each in found] == n_triples
        assert all(graphs.pool.text[i][0] == f"Bergbyton {n}x" for each in found for i in each.positive_text)


def test_a_column_without_a_header_names_no_row(tmp_path: Path, numbers: list[int]) -> None:
    bare = table(numbers[0]) | {"header": ["", "Town", "Founded"]}
    _, tables = read_questions(write(tmp_path / "bare", [bare], [asked(numbers[0])]))
    graph = TableGraph.from_table(tables[f"League_{numbers[0]}"])
    assert graph and graph.key == 1 and graph.names[1] == f"Bergbyton {numbers[0]}x"


def test_where_no_column_names_the_rows_two_do(tmp_path: Path, numbers: list[int]) -> None:
    twice = table(numbers[0])
    for row, club in zip(twice["rows"], ("Ardal", "Ardal", "Bergby", "Bergby"), strict=True):
        row[0], row[1] = [club, []], [f"17{len(club)}{row[1][0][0]}", []]
    _, tables = read_questions(write(tmp_path / "twice", [twice], [asked(numbers[0])]))
    graph = TableGraph.from_table(tables[f"League_{numbers[0]}"])
    assert graph and graph.key is None and len(set(graph.names)) == 4
    assert graph.names[0] == "Ardal (175A)" and graph.triple(0, 0) == ("Ardal (175A)", "Club", "Ardal")


def test_a_chain_goes_from_what_one_page_states_to_what_another_does(
    tmp_path: Path, numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    n = numbers[0]
    stated = table(n)
    for year, (link, text) in enumerate(stated["passages"].items()):
        stated["passages"][link] = f"The place was founded in {1800 + year} . {text}"
    tables, rows = [stated, *map(table, numbers[1:])], [asked(n, answer="none"), *map(asked, numbers[1:])]
    folder = write(tmp_path / "stated", tables, rows)
    instance = next(i for i in make_instances(folder, 1).instances if i.method == "composed")
    assert instance.split_key == f"League_{n}" and len(instance.positive_sk) == len(instance.positive_text) == 2
    assert "founded" in instance.question and instance.answers[0] not in instance.question
    assert not [i for i in make_instances(folder).instances if i.method == "composed"]  # no word of it is common here
    monkeypatch.setattr(hybridqa, "common_words", lambda tables: frozenset({"club", "town"}))
    worded, *others = [i for i in make_instances(folder).instances if i.method == "composed"]
    assert {i.split_key for i in others} == {worded.split_key}
    assert len({i.topics for i in (worded, *others)}) == 1 + len(others)
    assert (
        worded.question.startswith('In the list "Northern Division: Sides"')
        and worded.answers[0] not in worded.question
    )
    assert "what is the founding year of the" in worded.question and "Town" not in worded.question


def test_every_table_has_one_composed_question_before_any_has_another_and_none_more_than_four(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = {name: SimpleNamespace(table=SimpleNamespace(name=name), key=0) for name in ("a", "b")}
    graphs: Any = SimpleNamespace(graphs=tables, evidence=SimpleNamespace(problems=lambda made: []))
    known = [SimpleNamespace(row=n // 2, column=n % 2) for n in range(18)]  # nine rows, two numbers each
    pairs = [(None, each, None, SimpleNamespace(column=2)) for each in known]
    monkeypatch.setattr(hybridqa, "number_pairs", lambda table: pairs)
    monkeypatch.setattr(hybridqa_graph, "_chain", lambda graph, graphs, pair, common: (graph.table.name, pair[1]))
    first, second, *others = hybridqa_graph.compose_chains(graphs, {"club"})
    assert {first[0], second[0]} == {"a", "b"} and len(others) == 6
    assert [(name, each.row) for name, each in others] == [
        (name, n) for name in (first[0], second[0]) for n in (1, 2, 3)
    ]
    assert all(each.column == 0 for _, each in (first, second, *others))  # one of the two names the row
    assert len(list(hybridqa_graph.compose_chains(graphs))) == 2


def test_another_club_of_the_same_town_makes_two_answers(tmp_path: Path, numbers: list[int]) -> None:
    n = numbers[0]
    doubled = table(n)
    doubled["rows"][2][1] = doubled["rows"][1][1]
    assert make_instances(write(tmp_path / "one", [doubled], [asked(n)])).instances == []


@pytest.mark.parametrize(
    ("told", "changes", "is_asked"),
    [
        ("in {town}", {}, False),  # "X City, Norway" is X there
        ("in the north", {}, True),
        (
            "in {town}",
            {
                "question": "Which town has the ground with purple turnstiles beneath {n}xchestnuts ?",
                "answer": "Bergbyton {n}x",
                "row_cells_quoted": [],
                "answer_in_table": True,
                "answer_passages": [],
            },
            True,  # the answer may be said twice
        ),
    ],
)
def test_a_triple_that_the_page_with_the_answer_says_too_is_not_needed(
    told: str, changes: dict[str, Any], is_asked: bool, tmp_path: Path, numbers: list[int]
) -> None:
    n, told_of = numbers[0], table(numbers[0])
    town, [link] = told_of["rows"][1][1]
    told_of["rows"][1][1] = [town, [f"{link}_City,_Norway"]]
    told_of["passages"][f"{link}_City,_Norway"] = told_of["passages"].pop(link)
    told_of["passages"][f"/wiki/Bergby_Rovers_{n}x"] += (
        f" Its ground {told.format(town=town)} has purple turnstiles beneath {n}xchestnuts ."
    )
    changed = {name: each.replace("{n}", str(n)) if isinstance(each, str) else each for name, each in changes.items()}
    folder = write(tmp_path / "told", [told_of, *map(table, numbers[1:])], [asked(n, **changed)])
    assert bool(make_instances(folder).instances) == is_asked


def test_shuffled_files_give_the_same_release(tmp_path: Path, numbers: list[int]) -> None:
    tables, rows = [table(n) for n in numbers], [asked(n) for n in numbers]
    first = make_instances(write(tmp_path / "one", tables, rows))
    random.Random(5).shuffle(tables)
    random.Random(6).shuffle(rows)
    assert make_instances(write(tmp_path / "two", tables, rows)) == first
    assert len(first.instances) == len(numbers)
