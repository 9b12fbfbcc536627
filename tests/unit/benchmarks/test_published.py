"""The tables of published figures can be reviewed: one header, one order, nothing twice; and are read as they stand."""

import csv
import re
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import TaskKey, benchmark, importable_names
from kbbench_hf.benchmarks.baselines import published_places, published_rows
from kbbench_hf.benchmarks.published import SOURCES, SYSTEMS, read_published
from kbbench_hf.errors import DataError

COLUMNS = (
    *("benchmark", "config", "split", "mode", "system", "slice", "metric"),
    *("value", "digits", "source", "key", "note"),
)
FILES = sorted({file for name in importable_names() if (file := benchmark(name).showing.published)})


def natural(text: str) -> list[tuple[bool, int | str]]:
    """Return a key by which 2 stands before 10."""
    return [(not part.isdigit(), int(part) if part.isdigit() else part) for part in re.split(r"(\d+)", text)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_a_table_has_the_columns_of_all_and_is_sorted(file: Path) -> None:
    with file.open(encoding="utf-8", newline="") as source:
        lines = csv.DictReader(source)
        assert tuple(lines.fieldnames or ()) == COLUMNS
        keys = [[natural(line[column]) for column in COLUMNS[:7]] for line in lines]
    assert keys == sorted(keys)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_every_source_is_used_and_says_where_it_can_be_looked_up(file: Path) -> None:
    with file.with_name(SOURCES).open(encoding="utf-8", newline="") as source:
        sources = {line["source"]: line for line in csv.DictReader(source)}
    with file.open(encoding="utf-8", newline="") as lines:
        assert {line["source"] for line in csv.DictReader(lines)} == set(sources)
    assert all(each["url"].startswith("https://") and each["work"] for each in sources.values())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_every_system_has_a_type_and_a_size_only_where_its_name_states_it(file: Path) -> None:
    with file.with_name(SYSTEMS).open(encoding="utf-8", newline="") as lines:
        systems = {line["system"]: line for line in csv.DictReader(lines)}
    assert list(systems) == sorted(systems)
    with file.open(encoding="utf-8", newline="") as lines:
        used = {(line["system"], line["source"]) for line in csv.DictReader(lines)}
    assert {name for name, _ in used} - {"data"} == set(systems)
    for name, line in systems.items():
        stated = re.search(r"-(\d+(?:\.\d+)?)b\b", name, re.I)
        assert line["parameters_b"] == (stated[1] if stated else ""), name
        assert line["type"] and (name, line["source"]) in used, name


def test_size_and_type_are_those_of_the_row_s_system() -> None:
    rows = {row.system: row for place in published_places() for row in published_rows(*place)}
    assert (rows["BM25"].system_type, rows["BM25"].parameters_b) == ("sparse retriever", None)
    assert (rows["GritLM-7b"].system_type, rows["GritLM-7b"].parameters_b) == ("dense retriever", 7.0)
    assert (rows["GPT-4"].system_type, rows["GPT-4"].parameters_b) == ("language model", None)


def test_the_name_of_a_row_is_made_of_its_system_and_place_and_stands_once() -> None:
    rows = [row for place in published_places() for row in published_rows(*place)]
    assert len({row.id for row in rows}) == len(rows) > 500
    assert all(re.fullmatch(r"published-[a-z0-9-]+", row.id) for row in rows)
    vicuna = read_published(FILES[-1])[TaskKey("text2kg-wikidata-tekgen", "sentences", "test", "paper")]["Vicuna-13B"]
    assert vicuna.id == "published-vicuna-13b-e2f96f"  # stands in addresses: it may not move


def test_a_figure_keeps_the_digits_of_its_source(tmp_path: Path) -> None:
    file = table(tmp_path, "b,c,s,m,sys,,f1,0.550,,one,,", "b,c,s,m,sys,,recall,0.123456,2,one,row 3,said of it")
    row = read_published(file)[TaskKey("b", "c", "s", "m")]["sys"]
    assert [(f.printed, f.key, f.kind) for f in row.figures.values()] == [
        ("0.550", "sys", "printed"),
        ("0.12", "row 3", "printed"),
    ]
    assert (row.scores, row.note) == ({"f1": 0.55, "recall": 0.123456}, "recall: said of it")
    assert [str(source) for source in row.sources] == ["A Paper, Table 1"]


@pytest.mark.parametrize(
    ("lines", "sources", "words"),
    [
        (["b,c,s,m,sys,,f1,0.5,,one,,"] * 2, "one,printed,A Paper,Table 1,https://a.b,", "occurs twice"),
        (["b,c,s,m,sys,,f1,0.5,,two,,"], "one,printed,A Paper,Table 1,https://a.b,", "source is not in"),
        (["b,c,s,m,sys,,f1,0.5,,one,,"], "one,remembered,A Paper,,https://a.b,", "'remembered' is not a kind"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(tmp_path: Path, lines: list[str], sources: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_published(table(tmp_path, *lines, sources=sources))


def table(folder: Path, *lines: str, sources: str = "one,printed,A Paper,Table 1,https://a.b,") -> Path:
    (folder / SOURCES).write_text(f"source,kind,work,where,url,note\n{sources}\n", encoding="utf-8")
    file = folder / "published.csv"
    file.write_text("\n".join([",".join(COLUMNS), *lines, ""]), encoding="utf-8")
    return file


def test_parts_stand_beside_the_whole_and_systems_have_their_type_size_and_model(tmp_path: Path) -> None:
    lines = ["b,c,s,m,net,,f1,12,,one,,", "b,c,s,m,net,hops=2,f1,.5,,one,,", "b,c,s,,other,,f1,0.75,,one,,"]
    file = table(tmp_path, *lines, sources="one,printed,A paper (arXiv 2404.13207),Table 6,https://a.b,")
    systems = "system,type,parameters_b,model\nnet,language model,7.5,\nother,reranker,,big\n"
    file.with_name(SYSTEMS).write_text(systems, encoding="utf-8")
    places = read_published(file)
    assert list(places) == [TaskKey("b", "c", "s", "m"), TaskKey("b", "c", "s", "")]
    (net,), (other,) = (rows.values() for rows in places.values())
    assert (net.figures["f1"].digits, net.slices["hops"]["2"]["f1"].value, other.slices) == (0, 0.5, {})
    assert [source.date for source in net.sources] == ["2024-04"]
    assert (net.system_type, net.parameters_b, net.model) == ("language model", 7.5, "net")
    assert (other.system_type, other.parameters_b, other.model) == ("reranker", None, "big")
