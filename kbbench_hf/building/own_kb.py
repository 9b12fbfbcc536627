"""Builder of a dataset from a user's own knowledge base: tables or a graph, and questions if there are any.

`building.build` calls it, and the script of mini-stark, which must give the shipped files byte for byte: the columns,
the order of rows and the types of ids stay as they are.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.benchmarks import benchmark_names
from kbbench_hf.benchmarks.answers import Id
from kbbench_hf.benchmarks.retrieval import WRITTEN
from kbbench_hf.building.graph_formats import GraphTables, read_graph
from kbbench_hf.building.graph_formats.collector import with_judgments
from kbbench_hf.errors import DataError, UsageError, first_of
from kbbench_hf.files.arrow import arrow_array, arrow_numbers
from kbbench_hf.files.datasets import RELEVANCE, write_dataset
from kbbench_hf.files.list_text import is_bracketed, parse_list, split_readings, whole_number
from kbbench_hf.files.table_files import DETAILS, read_table
from kbbench_hf.files.trec import read_qrels
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import (
    EDGE_COLUMNS,
    NODE_COLUMNS,
    numbered_schema,
    without_dangling,
    without_zeros,
)

QUESTION_COLUMNS = ("id", "query", "answer_ids")
MAPPED = {
    "nodes": (*NODE_COLUMNS, DETAILS),
    "edges": (*EDGE_COLUMNS, DETAILS),
    "queries": (*QUESTION_COLUMNS, "split", RELEVANCE),
}
"""Table -> the columns that `--map` can name."""
SKIP_DANGLING = "--skip-dangling"
_HINTS = {
    "not UTF-8": " Or name its encoding, such as --encoding latin-1.",
    "has no column": " Or name yours: --map nodes.id=COLUMN,...",
}
"""Words of an error -> the option that helps."""
_SPLITS = {"val": "validation", "dev": "validation"}
"""Names of splits in users' files -> our names."""
_FLOAT = re.compile(r"^(-?\d+)\.0+$")
"""An integer that became a float on its way into csv."""


class OwnTables(NamedTuple):
    """Files of a user's tables, and how they are read."""

    nodes: Path | None = None
    """Columns `id,type,name,text`; further ones are kept."""
    edges: Path | None = None
    """Columns `head,relation,tail`; further ones are kept. None where there are only texts."""
    queries: Path | None = None
    """Columns `id,query,answer_ids` and, if wanted, `split` and `relevance`; further ones are kept. In csv `answer_ids`
    is a JSON list such as `[3, 14]` or `["a", "b"]`, or ids with `;`, `|`, `,` or spaces between them, where only one
    such reading gives nodes. Without `split` all queries are `test`."""
    qrels: Path | None = None
    """Judgments of the queries, in place of their column `answer_ids`."""
    graph: Sequence[Path] = ()
    """Files or folders of a graph in another format, in place of `nodes` and `edges`."""
    format: str | None = None
    """The format of `graph`; None to detect it."""
    map: Mapping[str, Mapping[str, str]] = {}
    """Table -> column -> its source, see `table_files.mapped`."""
    encoding: str = ""
    """The encoding of text files that are not Unicode."""


def build_own_knowledge_base(
    name: str,
    nodes: Path | None,
    edges: Path | None,
    queries: Path | None,
    out: Path,
    skip_dangling: bool = False,
    **further: Any,
) -> list[str]:
    """Build the dataset `name` at `out` from tables (csv, Parquet, JSON Lines), or from a graph in another format.

    Args:
        name: the dataset's name.
        nodes: see `OwnTables`, as for all that is not described here.
        edges: see `OwnTables`.
        queries: see `OwnTables`.
        out: the dataset folder to write.
        skip_dangling: leave out edges that lead to no node, gold ids that are no node, and queries without any other
            gold id, in place of refusing them.
        further: the other fields of `OwnTables`.

    Returns what was left out, in sentences, which also go onto the card and into the manifest.

    Raises:
        DataError: a file is malformed, an edge leads to no node, or a gold id is no node; the first ten are listed.
        UsageError: a file is absent, or the name is taken or no name.
    """
    check_own_name(name, "knowledge base")
    own = OwnTables(nodes, edges, queries, **further)
    try:
        graph = read_graph(own.graph, own.format, own.encoding) if own.graph else _read_own_tables(own)
    except DataError as error:
        hint = next((hint for words, hint in _HINTS.items() if words in str(error)), "")
        raise DataError(f"{error}{hint}") from error
    left_out = [*graph.left_out]
    kb, edge_table = _link_edges(graph, own, left_out, skip_dangling)
    ids = kb.nodes["id"]
    tables: dict[str, dict[str, pa.Table]] = {}
    if asked := _read_queries(own, left_out) or graph.queries:
        tables["queries"] = _questions_by_split(*asked, ids, left_out, skip_dangling)
    schema = numbered_schema(kb.graph.node_types, kb.graph.relations, kb.graph.type_ids, kb.edges)
    tables["nodes"] = {"full": _with_ids(graph.nodes, ids, ("id",))}
    tables |= {"edges": {"full": _with_ids(edge_table, ids, ("head", "tail"))}, "schema": {"full": schema}}
    write_dataset(out, tables, _card_text(name, tables, graph.origin, left_out), left_out=left_out)
    return left_out


def _read_own_tables(own: OwnTables) -> GraphTables:
    """Return the tables of nodes and edges; without a file of edges, there are none."""

    def read(file: Path, name: str, columns: Sequence[str]) -> pa.Table:
        return read_table(file, columns, [DETAILS], own.map.get(name), own.encoding)

    assert own.nodes is not None  # noqa: S101 (the command asks for nodes or graphs)
    no_edges = pa.table({column: arrow_array([], pa.string()) for column in EDGE_COLUMNS})
    nodes = read(own.nodes, "nodes", NODE_COLUMNS)
    return GraphTables(nodes, no_edges if own.edges is None else read(own.edges, "edges", EDGE_COLUMNS))


def _link_edges(
    graph: GraphTables, own: OwnTables, left_out: list[str], skip_dangling: bool
) -> tuple[KnowledgeBase, pa.Table]:
    """Return the knowledge base and its edges; with `skip_dangling`, those that lead to no node go to `left_out`.

    Raises:
        DataError: an edge leads to no node, or none would be left; or the tables are no knowledge base.
    """
    try:
        return KnowledgeBase.from_arrow(graph.nodes, graph.edges), graph.edges
    except DataError:
        kept, n_dangling, shown = without_dangling(graph.nodes, graph.edges)
        n_edges = len(graph.edges)
        if not n_dangling:
            raise
        if not skip_dangling or not len(kept):
            raise DataError(
                f"{own.edges or own.graph[0]}: {n_dangling:,} of {n_edges:,} edges lead to no node: {shown}. Expected "
                f"ids of {own.nodes or 'its nodes'}. {_remedy('nodes', 'edges', len(kept))}"
            ) from None
    left_out.append(f"{n_dangling:,} of {n_edges:,} edges, which lead to no node: {shown}.")
    return KnowledgeBase.from_arrow(graph.nodes, kept), kept


def check_own_name(name: str, what: str) -> None:
    """Refuse a name for a dataset of one's own that a benchmark has, or that has other signs than `[A-Za-z0-9_.-]`.

    Raises:
        UsageError: the name is refused; the message calls the dataset `what`.
    """
    if name in benchmark_names() or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise UsageError(
            f"{name!r} cannot name your own {what}; expected letters, digits, '-', '_' and '.', and none of "
            f"{', '.join(benchmark_names())}. Choose another name."
        )


def _remedy(missing: str, dangling: str, n_kept: int) -> str:
    """Return the remedy for ids that are no node; leaving them out is offered only where others remain."""
    return f"Add these {missing}, correct the {dangling}" + (f", or leave them out: {SKIP_DANGLING}" if n_kept else ".")


def _with_ids(table: pa.Table, ids: pa.ChunkedArray, columns: tuple[str, ...]) -> pa.Table:
    """Return a table whose `columns` of node ids have the type of `ids`, integer or text; dictionaries are decoded."""
    for place, field in enumerate(table.schema):
        kind = pa.string()
        if field.name in columns:
            if pa.types.is_int64(ids.type):
                kind, table = pa.int64(), table.set_column(place, field.name, without_zeros(table[field.name]))
        elif not pa.types.is_dictionary(field.type):
            continue
        table = table.set_column(place, field.name, table[field.name].cast(kind))
    return table


def _read_queries(own: OwnTables, left_out: list[str]) -> tuple[pa.Table, str] | None:
    """Return the table of queries, with `answer_ids`, and its name in messages; None where no queries are given.

    With judgments, queries without any are left out, which `left_out` gets as a sentence.

    Raises:
        DataError: a file is malformed, or the judgments are of other queries.
    """
    if own.queries is None:
        return None
    sources = own.map.get("queries")
    if own.qrels is None:
        known = (QUESTION_COLUMNS, ["split", RELEVANCE])
        return read_table(own.queries, *known, sources, own.encoding), str(own.queries)
    table = read_table(own.queries, QUESTION_COLUMNS[:2], ["split"], sources, own.encoding)
    judged = with_judgments(table, read_qrels(own.qrels, own.encoding), left_out)
    if not len(judged):
        raise DataError(
            f"{own.qrels} judges none of the queries of {own.queries} as relevant. Expected ids such as "
            f"{table['id'][0].as_py()!r}. Correct one of the files."
        )
    return judged, str(own.qrels)


def _questions_by_split(
    table: pa.Table, file: str, ids: pa.ChunkedArray, left_out: list[str], skip_dangling: bool
) -> dict[str, pa.Table]:
    """Return the questions by split; their answers have the type of the node ids.

    Gold ids that are no node are left out and named in `left_out`, or refused. Those of grade 0 or below are no gold.
    Ids of questions become integers if all of them are integers as they are written.

    Raises:
        DataError: a cell is malformed, a gold id is no node (unless `skip_dangling`), or no query has gold.
    """
    numbers = pa.types.is_int64(ids.type)
    known = set(ids.to_pylist())
    given = table[RELEVANCE].to_pylist() if RELEVANCE in table.column_names else [None] * len(table)
    cells = zip(table["answer_ids"].to_pylist(), given, strict=True)
    golds = [
        _pair_with_grades(_parse_answers(value, known, numbers, f"{file}, row {row}"), grades, f"{file}, row {row}")
        for row, (value, grades) in enumerate(cells, start=1)
    ]
    lost = [
        f"{short_repr(answer)} of query {question}"
        for question, each in zip(table["id"].to_pylist(), golds, strict=True)
        for answer, grade in each
        if grade >= 1 and answer not in known
    ]
    kept = [[(answer, grade) for answer, grade in each if grade >= 1 and answer in known] for each in golds]
    answered = np.array([row for row, each in enumerate(kept) if each], np.int64)
    n_kept = len(answered)
    if lost:
        shown = first_of(lost)
        if not skip_dangling or not n_kept:
            raise DataError(
                f"{file}: {len(lost):,} gold ids are not nodes: {shown}. Expected ids of nodes. "
                f"{_remedy('nodes', 'gold ids', n_kept)}"
            )
        left_out.append(f"{len(lost):,} gold ids, which are not nodes: {shown}.")
    if not n_kept:
        raise DataError(f"{file}: no query has a gold id of grade 1 or above; expected some. Correct the grades.")
    if n_kept < len(table):
        left_out.append(f"{len(table) - n_kept:,} of {len(table):,} queries, which have no other gold id.")
    table, kept = table.take(arrow_numbers(answered)), [each for each in kept if each]
    parts = {"answer_ids": (pa.int64() if numbers else pa.string(), 0), RELEVANCE: (pa.int64(), 1)}
    for name, (kind, part) in parts.items():
        if name in table.column_names:
            column = arrow_array([[pair[part] for pair in each] for each in kept], pa.list_(kind))
            table = table.set_column(table.column_names.index(name), name, column)
    question_ids = table["id"].cast(pa.string())
    with suppress(pa.ArrowInvalid):  # numbers where all are, but "007" is no 7
        as_numbers = question_ids.cast(pa.int64())
        question_ids = as_numbers if as_numbers.cast(pa.string()).equals(question_ids) else question_ids
    return _divide_by_split(table.set_column(table.column_names.index("id"), "id", question_ids), file)


def _pair_with_grades(answers: list[Id], cell: object, where: str) -> list[tuple[Id, int]]:
    """Return each gold id with its grade of relevance, from a cell in any notation; 1 where no grades are given.

    Raises:
        DataError: there is not one integer for each id.
    """
    if cell is None:
        return [(answer, 1) for answer in answers]
    if isinstance(cell, str):
        cell = parse_list(cell) if is_bracketed(cell) else re.split(r"[;|,\s]+", cell.strip())
    grades = [_parse_id(each, number=True) for each in (cell if isinstance(cell, list) else [cell])]
    if len(grades) != len(answers) or None in grades:
        raise DataError(
            f"{where}: relevance {short_repr(cell)} of {len(answers)} gold ids; expected an integer for each, such as "
            "[2, 1]. Correct the cell."
        )
    return [(answer, int(grade or 0)) for answer, grade in zip(answers, grades, strict=True)]


def _parse_answers(value: object, known: Collection[Id], numbers: bool, where: str) -> list[Id]:
    """Return the answer ids of a cell in any notation; without brackets, the one reading that gives nodes.

    Raises:
        DataError: it is no list of ids, or several readings give nodes.
    """
    cells: list[Any] = []
    if isinstance(value, str) and not is_bracketed(value):
        cells = [*split_readings(value).values(), value.split()]
    else:
        with suppress(ValueError):
            listed = parse_list(value) if isinstance(value, str) else value
            cells = [listed if isinstance(listed, list) else [listed]]
    readings: list[list[Id]] = []
    for cell in cells:
        ids = [each for item in cell if (each := _parse_id(item, numbers)) not in (None, "")]
        if ids and len(ids) == len(cell) and ids not in readings:
            readings.append(ids)
    fitting = [ids for ids in readings if all(each in known for each in ids)]
    if len(fitting) > 1:
        either = " or ".join(json.dumps(ids, ensure_ascii=False) for ids in fitting[:2])
        raise DataError(f"{where}: answers {value!r} may be {either}; expected one reading. Write JSON lists.")
    if readings:
        return fitting[0] if fitting else max(readings, key=len)
    raise DataError(
        f"{where}: answers {short_repr(value)}; expected a list of node ids, "
        f"""{"which are integers here: [3, 14]" if numbers else 'such as ["a"]'}, not empty. Correct the cell."""
    )


def _parse_id(value: Any, number: bool) -> Id | None:
    """Return an id as the number or text that it was before a table stored it otherwise; None where it is none."""
    if isinstance(value, float | Decimal) and -(2**53) < value < 2**53 and value == int(value):
        value = int(value)
    elif isinstance(value, bytes | UUID):
        value = value.decode("utf-8") if isinstance(value, bytes) else str(value)
    if type(value) not in (int, str):
        return None
    return whole_number(_FLOAT.sub(r"\1", str(value))) if number else str(value)


def _divide_by_split(table: pa.Table, file: str) -> dict[str, pa.Table]:
    """Return the questions of each split, the usual three first; all are `test` without a column `split`.

    Raises:
        DataError: a split has no valid name, or an id occurs twice in one.
    """
    splits = {"test": table}
    if "split" in table.column_names:
        names = [_SPLITS.get(each, each) for each in table["split"].to_pylist()]
        for row, each in enumerate(names, start=1):
            if not re.fullmatch(r"\w{1,60}", each or "") or each == "all":
                raise DataError(
                    f"{file}, row {row}: split {each!r}; expected a name of letters and digits such as train or "
                    "test, and not 'all'. Correct the column 'split', or leave it out."
                )
        column, table = arrow_array(names, pa.string()), table.drop_columns("split")
        order = [*(each for each in WRITTEN if each in names), *sorted(set(names) - set(WRITTEN))]
        splits = {name: table.filter(pc.equal(column, name)) for name in order}
    for name, part in splits.items():
        repeated = [each for each, n in Counter(part["id"].to_pylist()).items() if n > 1]
        if repeated:
            raise DataError(f"{file}: question {repeated[0]!r} occurs twice in split {name!r}. Give each its own id.")
    return splits


def _card_text(
    name: str, tables: dict[str, dict[str, pa.Table]], origin: Sequence[str], left_out: Sequence[str]
) -> str:
    """Return the dataset's card; the lists of files and of what was left out are sections where they are not empty."""
    sizes = ", ".join(f"{len(part):,} {split}" for split, part in tables.get("queries", {}).items())
    questions = f" with questions ({sizes})" if sizes else ""
    parts = {"Built from": origin, "Left out": left_out}
    sections = ("\n- ".join([f"\n## {title}\n", *lines]) + "\n" for title, lines in parts.items() if lines)
    return (
        f"---\npretty_name: {name}\ntask_categories:\n- text-retrieval\ntags:\n- knowledge-graph\n---\n\n# {name}\n\n"
        f"A knowledge base of {len(tables['nodes']['full']):,} nodes and {len(tables['edges']['full']):,} edges"
        f"{questions}, built with `kbbench build {name}`.\n" + "".join(sections)
    )
