"""View of a board: search, filters, sorting, columns and pages, as cells, CSV and LaTeX.

The Leaderboard tab and the API share it. The headings are parts of addresses and of the CSV: links and programs of
others have them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.published import date_of
from kbbench_hf.leaderboard.table import BoardScore, Row
from kbbench_hf.metrics.significance import ALPHA
from kbbench_hf.reports import tables
from kbbench_hf.reports.tables import bold, latex, tabular

PAGE = 50
"""Rows per page."""
N_METRICS = 5
"""Number of metrics among the default columns."""
ALL = "all"
ORIGINS = {ALL: ALL, "re-scored": "submission", "own run": "baseline", "published": "from paper"}
"""Value in addresses and of `Row.badge` -> its label on the pages."""
NOT_STATED = "not stated"
SIZES = {"up to 3B": (0.0, 3.0), "3B to 15B": (3.0, 15.0), "over 15B": (15.0, math.inf)}
"""Choice of the size filter -> billions of parameters, more than the first and at most the second."""
MAX_SEARCH = 200


@dataclass(frozen=True)
class BoardColumn:
    """A column of the board: its heading, and the text and the sort key of a row."""

    heading: str
    text: Callable[[Row], str]
    order: Callable[[Row], str | float] | None
    """The sort key; None for a column that depends on the order of the rows. NaN and empty texts are sorted last."""
    descending: bool = True
    """Whether the first click sorts descending; for a metric, whether higher is better."""
    beside: Callable[[Row], str] = lambda row: ""
    """A smaller text next to the first one: the interval or the test."""
    metric: str = ""
    """The metric whose scores it shows; empty for other columns."""


@dataclass(frozen=True)
class View:
    """The choices of a visitor, which the address of the page contains."""

    search: str = ""
    origin: str = ALL
    sort: str = ""
    """A heading, with "-" before it for the reverse order; empty for the order of the board."""
    page: int = 1
    size: str = ALL
    type: str = ALL

    @classmethod
    def of(cls, query: Mapping[str, str], all_columns: Sequence[BoardColumn], rows: Sequence[Row]) -> "View":
        """Return the view that an address requests; the default in place of values that the board does not have."""
        sort, page = query.get("sort", ""), query.get("sheet", "")
        sortable = {column.heading for column in all_columns if column.order}
        return cls(
            query.get("search", "")[:MAX_SEARCH],
            query["origin"] if query.get("origin") in ORIGINS else ALL,
            sort if sort.removeprefix("-") in sortable else "",
            int(page) if page.isdecimal() and len(page) < 7 else 1,
            query["size"] if query.get("size") in sizes(rows) else ALL,
            query["type"] if query.get("type") in types(rows) else ALL,
        )

    @property
    def address(self) -> dict[str, str]:
        """The view as parameters of an address, without the page and without defaults."""
        values = {"search": self.search, "origin": self.origin, "size": self.size, "type": self.type, "sort": self.sort}
        return {key: value for key, value in values.items() if value not in ("", ALL)}


def size_of(row: Row) -> str:
    """Return the choice of the size filter to which a row belongs, `NOT_STATED` where the size is unknown."""
    size = row.parameters_b
    return next((name for name, (low, high) in SIZES.items() if size and low < size <= high), NOT_STATED)


def sizes(rows: Sequence[Row]) -> list[str]:
    """Return the choices of the size filter that these rows need: `all` first, then from small to large."""
    present = {size_of(row) for row in rows}
    return [ALL, *(each for each in (*SIZES, NOT_STATED) if each in present)]


def types(rows: Sequence[Row]) -> list[str]:
    """Return the choices of the type filter that these rows need: `all` first, then alphabetically."""
    present = {row.type for row in rows}
    return [ALL, *sorted(present - {""}), *([NOT_STATED] if "" in present else [])]


def requested_columns(requested: str, all_columns: Sequence[BoardColumn], default: Sequence[str]) -> list[str]:
    """Return the known headings of a list with commas, in its order; `default` where there are none."""
    headings = [column.heading for column in all_columns]
    return [heading for heading in requested.split(",") if heading in headings] or list(default)


def columns(benchmark: Benchmark) -> list[BoardColumn]:
    """Return all columns of a benchmark's board; its metrics are in the order of the paper's tables."""
    return [
        BoardColumn("#", lambda row: str(row.group or ""), lambda row: row.group or math.nan, descending=False),
        BoardColumn("system", lambda row: row.system, lambda row: row.system.casefold(), descending=False),
        *(_metric_column(benchmark, metric, label) for metric, label in benchmark.metrics.items()),
        BoardColumn("vs previous row", _difference, None, beside=_test),
        BoardColumn("type", lambda row: row.type, lambda row: row.type, descending=False),
        _number_column("size, B", "parameters_b", "{:g}"),
        BoardColumn("license", lambda row: row.licence, lambda row: row.licence, descending=False),
        _number_column("p50, s", "latency_p50_s", "{:.2f}"),
        _number_column("p95, s", "latency_p95_s", "{:.2f}"),
        _number_column("$ per 1,000", "cost_per_1000_usd", "{:.2f}"),
        _number_column("unparsed", "parse_failure_rate", "{:.1%}"),
        _number_column("coverage", "coverage", "{:.1%}"),
        _number_column("seen - unseen", "seen_gap", "{:+z.3f}"),
        BoardColumn("warnings", _warnings, _warnings),
        BoardColumn("annotated with", lambda row: row.annotators, lambda row: row.annotators, descending=False),
        BoardColumn("submitter", lambda row: row.submitter, lambda row: row.submitter.casefold(), descending=False),
        BoardColumn("origin", lambda row: ORIGINS[row.badge], lambda row: row.badge, descending=False),
        BoardColumn("year", year_of, lambda row: float(year_of(row) or math.nan)),
        BoardColumn("date", lambda row: row.stored[:10], lambda row: row.stored),
    ]


def filled(all_columns: Sequence[BoardColumn], rows: Sequence[Row]) -> list[BoardColumn]:
    """Return the columns with a text for at least one row; and that of differences, if there are two rows."""
    return [each for each in all_columns if any(map(each.text, rows)) or (each.order is None and len(rows) > 1)]


def default_columns(benchmark: Benchmark, rows: Sequence[Row]) -> list[str]:
    """Return the headings of the default columns: first metrics and facts on the system, if rows have them."""
    available = [column.heading for column in filled(columns(benchmark), rows)]
    scores = [label for label in benchmark.metrics.values() if label in available][:N_METRICS]
    metrics = {label: metric for metric, label in benchmark.metrics.items()}
    for row in rows:  # each row needs a score among the columns: papers publish other metrics
        has = [label for label in available if metrics.get(label) in row.scores]
        scores += has[:1] if not set(has) & set(scores) else []
    shown = {"#", "system", *scores, "vs previous row", "type", "size, B", "p95, s", "$ per 1,000", "seen - unseen"}
    shown |= {"warnings", "annotated with", "submitter", "origin", "year"}
    return [heading for heading in available if heading in shown]


def ordered(rows: Sequence[Row], sort: str, all_columns: Sequence[BoardColumn]) -> list[Row]:
    """Return rows sorted as `View.sort` says, missing values last; in their order if there is no such column."""
    heading, in_order = sort.removeprefix("-"), list(rows)
    column = next((column for column in all_columns if column.heading == heading), None)
    if column and (order := column.order):
        descending = column.descending != sort.startswith("-")
        in_order.sort(key=lambda row: _missing_last(order(row), descending), reverse=descending)
    return in_order


def matching(rows: Sequence[Row], view: View) -> list[Row]:
    """Return the rows that match the search words and the filters of a view, in their order."""
    words = view.search.casefold().split()
    return [
        row
        for row in rows
        if view.origin in (ALL, row.badge)
        and view.size in (ALL, size_of(row))
        and view.type in (ALL, row.type or NOT_STATED)
        and all(word in row.searched for word in words)
    ]


def page_of(rows: Sequence[Row], page: int) -> tuple[list[Row], int, int]:
    """Return a page of rows, its number from 1, and the number of pages; the nearest page if it does not exist."""
    n_pages = max(1, -(-len(rows) // PAGE))
    page = min(max(1, page), n_pages)
    return list(rows[(page - 1) * PAGE : page * PAGE]), page, n_pages


def csv_text(rows: Sequence[Row], shown: Sequence[BoardColumn]) -> str:
    """Return rows as CSV with the known digits, and the year, the sources and the addresses of published rows.

    The ends of intervals and the p-value have their own columns.
    """
    heads = ["id"]
    shown = [column for column in shown if column.heading != "year"]  # it is added at the end
    for column in shown:
        ends = [f"{column.heading} low", f"{column.heading} high"] if column.metric else []
        heads += [column.heading, *(["p"] if column.beside is _test else ends)]
    heads += ["year", "source", "paper"]
    lines = [[row.id, *(each for column in shown for each in _cell_values(column, row)), *_source(row)] for row in rows]
    return tables.csv_text(heads, lines)


def year_of(row: Row) -> str:
    """Return the year of a published row's first source, by its arXiv number or as it is written; empty if unknown.

    >>> year_of(Row("1", "s", {}, "published", sources=[("A paper (arXiv 2404.13207), Table 6", "")]))
    '2024'
    """
    return date_of(row.sources[0][0])[:4] if row.sources else ""


def _rounded(value: float, digits: int = 4) -> str | Decimal:
    """Return a value with this number of decimals, "" for NaN; a negative one not as text, which may be a formula."""
    text = "" if math.isnan(value) else f"{value:z.{digits}f}"
    return Decimal(text) if text.startswith("-") else text


def _source(row: Row) -> list[str]:
    """Return the year, the sources and their addresses of a published row; empty texts for a row scored here."""
    if row.badge != "published":
        return ["", "", ""]
    words, addresses = (dict.fromkeys(each[n] for each in row.sources) for n in (0, 1))
    return [year_of(row), "; ".join(words), " ".join(addresses)]


def _cell_values(column: BoardColumn, row: Row) -> list[str | Decimal]:
    """Return the values of a cell for CSV: a score and its interval, a difference and its p-value, or the text."""
    if column.metric:
        score = row.score(column.metric)
        return [_rounded(each, score.digits) for each in (score.value, score.low, score.high)]
    if column.beside is _test:
        gap, p_value = math.nan if row.gap is None else row.gap, row.above.p_value if row.above else math.nan
        return [
            _rounded(gap, row.gap_digits),
            _rounded(p_value) if p_value >= 0.00005 else f"{p_value:.0e}".replace("nan", ""),
        ]
    return [column.text(row)]


def latex_text(rows: Sequence[Row], benchmark: Benchmark, shown: Sequence[str]) -> str:
    r"""Return a booktabs table of the metrics in `shown` (headings): best scores bold, space between rank groups."""
    metrics = [metric for metric, label in benchmark.metrics.items() if label in shown]
    best = {metric: _best(rows, metric, metric in benchmark.scoring.lower_is_better) for metric in metrics}
    lines = [
        [latex(row.system), *(_latex_score(row.score(metric), best[metric]) for metric in metrics)] for row in rows
    ]
    spaced = {n for n, row in enumerate(rows) if n and row.group != rows[n - 1].group}
    heads = [("System", 1), *((latex(benchmark.metrics[metric]), 1) for metric in metrics)]
    return tabular([heads], lines, spaced)


def _metric_column(benchmark: Benchmark, metric: str, label: str) -> BoardColumn:
    return BoardColumn(
        label,
        lambda row: row.score(metric).text(),
        lambda row: row.score(metric).value,
        metric not in benchmark.scoring.lower_is_better,
        lambda row: row.score(metric).interval(),
        metric,
    )


def _number_column(heading: str, attribute: str, form: str) -> BoardColumn:
    def order(row: Row) -> float:
        value = getattr(row, attribute)
        return math.nan if value is None else float(value)

    return BoardColumn(
        heading, lambda row: "" if math.isnan(order(row)) else form.format(order(row)), order, heading == "coverage"
    )


def _warnings(row: Row) -> str:
    return ", ".join(each.code.replace("_", " ") for each in row.warnings if each.inseparable)


def _difference(row: Row) -> str:
    return "" if row.gap is None else f"{row.gap:+z.{row.gap_digits}f}"


def _test(row: Row) -> str:
    return f"{'✓' if row.above.p_value < ALPHA else '≈'} {p_text(row.above.p_value)}" if row.above else ""


def p_text(p_value: float) -> str:
    """Return a p-value as `kbbench compare` prints it, never as 0.

    >>> p_text(0.00004), p_text(0.0421)
    ('p < 0.0001', 'p 0.0421')
    """
    return "p < 0.0001" if p_value < 0.00005 else f"p {p_value:.4f}"


def _missing_last(value: str | float, descending: bool) -> tuple[bool, str | float]:
    """Return the sort key of a value; NaN and empty texts come last, in descending order too."""
    unknown = isinstance(value, float) and math.isnan(value)
    return (unknown or value == "") != descending, 0.0 if unknown else value


def _best(rows: Sequence[Row], metric: str, lower: bool) -> float:
    values = [value for row in rows if not math.isnan(value := row.score(metric).value)]
    return (min if lower else max)(values, default=math.nan)


def _latex_score(score: BoardScore, best: float) -> str:
    text = score.text(3) or "--"
    return bold(text) if score.value == best else text
