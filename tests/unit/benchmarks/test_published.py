"""The tables of published figures can be reviewed: one header, one order, nothing twice; and are read as they stand."""

import csv
import re
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import Place, benchmark, importable_names
from kbbench_hf.benchmarks.baselines import published_places, published_rows
from kbbench_hf.benchmarks.published import SOURCES, read_published
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


def test_the_name_of_a_row_is_made_of_its_system_and_place_and_stands_once() -> None:
    rows = [row for place in published_places() for row in published_rows(*place)]
    assert len({row.id for row in rows}) == len(rows) > 500
    assert all(re.fullmatch(r"published-[a-z0-9-]+", row.id) for row in rows)
    vicuna = read_published(FILES[-1])[Place("text2kg-wikidata-tekgen", "sentences", "test", "paper")]["Vicuna-13B"]
    assert vicuna.id == "published-vicuna-13b-e2f96f"  # stands in addresses: it may not move


def test_a_figure_keeps_the_digits_of_its_source(tmp_path: Path) -> None:
    file = table(tmp_path, "b,c,s,m,sys,,f1,0.550,,one,,", "b,c,s,m,sys,,recall,0.123456,2,one,row 3,said of it")
    row = read_published(file)[Place("b", "c", "s", "m")]["sys"]
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
