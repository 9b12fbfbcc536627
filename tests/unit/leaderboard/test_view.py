"""A page of the board is what its address says."""

import csv
import io
import math
from collections.abc import Sequence

import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.leaderboard.table import BoardScore, Row
from kbbench_hf.leaderboard.view import (
    PAGE,
    BoardColumn,
    View,
    columns,
    csv_text,
    default_columns,
    latex_text,
    matching,
    ordered,
    page_of,
    sizes,
    types,
)
from kbbench_hf.metrics.significance import PairedTest

BENCHMARK = benchmark("mini-text2kg")
COLUMNS = columns(BENCHMARK)


def chosen(rows: Sequence[Row], view: View, all_columns: Sequence[BoardColumn]) -> list[Row]:
    return matching(ordered(rows, view.sort, all_columns), view)


def row(system: str, f1: float, **others: object) -> Row:
    scores = {"f1": BoardScore(f1, f1 - 0.01, f1 + 0.01), "subject_hallucination": BoardScore(1 - f1)}
    return Row(system, system, scores,
               others.pop("badge", "re-scored"), **others)  # fmt: skip


ROWS = [
    row("alpha 70B", 0.9, parameters_b=70, licence="mit", group=1),
    row("beta 7B", 0.5, parameters_b=7, gap=-0.4, above=PairedTest(0.4, (0.3, 0.5), 0.0002, 9, 1, 0), group=2),
    row("published gamma", 0.4, badge="published", gap=-0.1),
]


def test_search_needs_every_word_and_ignores_case() -> None:
    assert [each.system for each in chosen(ROWS, View(search="B"), COLUMNS)] == [
        "alpha 70B",
        "beta 7B",
        "published gamma",
    ]
    assert [each.system for each in chosen(ROWS, View(search="MIT 70b"), COLUMNS)] == ["alpha 70B"]
    assert [each.system for each in chosen(ROWS, View(origin="published"), COLUMNS)] == ["published gamma"]


def test_filters_by_size_and_type_have_a_choice_for_what_is_not_stated() -> None:
    rows = [*ROWS, row("delta", 0.3, badge="published", parameters_b=3, type="dense retriever")]
    assert sizes(rows) == ["all", "up to 3B", "3B to 15B", "over 15B", "not stated"]
    assert types(rows) == ["all", "dense retriever", "not stated"]
    found = {size: [each.system for each in chosen(rows, View(size=size), COLUMNS)] for size in sizes(rows)[1:]}
    assert found == {
        "up to 3B": ["delta"], "3B to 15B": ["beta 7B"], "over 15B": ["alpha 70B"], "not stated": ["published gamma"]
    }  # fmt: skip
    assert [each.system for each in chosen(rows, View(type="dense retriever"), COLUMNS)] == ["delta"]
    assert len(chosen(rows, View(type="not stated"), COLUMNS)) == 3


def test_a_view_is_what_its_address_requests_and_back() -> None:
    rows = [*ROWS, row("delta", 0.3, type="dense retriever")]
    query = {"search": "a", "origin": "published", "size": "over 15B", "type": "dense retriever", "sort": "-F1"}
    assert View.of(query, COLUMNS, rows).address == query
    assert View.of({"size": "huge", "type": "x", "origin": "y", "sort": "z"}, COLUMNS, rows) == View()


def test_sorting_puts_what_is_missing_last_both_ways() -> None:
    def order(heading: str) -> list[str]:
        return [each.system[0] for each in chosen(ROWS, View(sort=heading), COLUMNS)]

    assert order("-SH") == ["p", "b", "a"]

    assert order("size, B") == ["b", "a", "p"]
    assert order("SH") == ["a", "b", "p"]
    assert order("license") == ["a", "b", "p"]
    assert order("no such column") == order("") == ["a", "b", "p"]


def test_a_page_that_does_not_exist_is_the_nearest_one() -> None:
    many = [row(f"s{n}", 0.5) for n in range(PAGE + 1)]
    assert [len(page_of(many, page)[0]) for page in (-3, 1, 2, 99)] == [PAGE, PAGE, 1, 1]
    assert page_of([], 1) == ([], 1, 1)


def test_a_difference_is_marked_by_a_sign_not_by_a_colour() -> None:
    column = next(column for column in COLUMNS if column.heading == "vs previous row")
    assert [f"{column.text(each)} {column.beside(each)}".strip() for each in ROWS] == [
        "",
        "-0.4000 ✓ p 0.0002",
        "-0.1000",
    ]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_cell_of_the_csv_is_a_formula(name: str) -> None:
    text = csv_text([row(name, 0.5)], COLUMNS)
    for line in csv.reader(io.StringIO(text)):
        assert not any(
            cell.startswith(("=", "+", "@", "\t")) or (cell.startswith("-") and len(cell) > 1) for cell in line
        )


def test_the_csv_has_size_and_type_and_one_column_of_years() -> None:
    source = ("A paper (arXiv 2404.13207), Table 6 (printed)", "https://a.b")
    known = row("x", 0.5, badge="published", type="sparse retriever", parameters_b=7, sources=[source])
    (line,) = csv.DictReader(io.StringIO(csv_text([known], COLUMNS)))
    assert (line["type"], line["size, B"], line["year"], line["paper"]) == (
        "sparse retriever",
        "7",
        "2024",
        "https://a.b",
    )
    assert csv_text([known], COLUMNS).splitlines()[0].split(",").count("year") == 1


def test_a_difference_of_published_figures_has_the_digits_of_the_figures() -> None:
    known = row("x", 0.51, gap=-0.49, gap_digits=3)
    column = next(column for column in COLUMNS if column.heading == "vs previous row")
    (line,) = csv.DictReader(io.StringIO(csv_text([known], COLUMNS)))
    assert (column.text(known), line["vs previous row"]) == ("-0.490", "-0.490")


def test_latex_marks_the_best_and_escapes_names() -> None:
    text = latex_text([row("a_b & c", 0.9), row("d", 0.5)], BENCHMARK, ["F1", "SH"])
    assert "a\\_b \\& c & \\textbf{0.900}" in text and "d & 0.500 & 0.500" in text


def test_columns_that_say_nothing_are_not_shown_at_first() -> None:
    assert default_columns(BENCHMARK, ROWS) == ["#", "system", "F1", "SH", "vs previous row", "size, B", "origin"]
    assert default_columns(BENCHMARK, ROWS[2:]) == ["system", "F1", "SH", "vs previous row", "origin"]


def test_default_columns_exist() -> None:
    assert set(default_columns(BENCHMARK, ROWS)) <= {column.heading for column in COLUMNS}
    assert (COLUMNS[2].text(unscored := row("x", math.nan)), COLUMNS[2].beside(unscored)) == ("", "")


def test_ten_thousand_rows_are_searched_and_sorted() -> None:
    many = [row(f"system {n}", n / 10_000, parameters_b=n % 70) for n in range(10_000)]
    found = chosen(many, View(search="system 9", sort="size, B"), COLUMNS)
    shown, _, n_pages = page_of(found, 3)
    # 10,000 - 9**4 numbers below 10,000 have a 9: 3,439, on 69 pages
    assert n_pages == 69 and all(each.text(row) is not None for each in COLUMNS for row in shown)
