"""Builder of a dataset from a user's own knowledge base: tables of nodes, edges and, if there are any, questions."""

import json
import re
from collections import Counter
from collections.abc import Collection
from decimal import Decimal
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.benchmarks import benchmark_names
from kbbench_hf.benchmarks.answers import Id
from kbbench_hf.benchmarks.retrieval import WRITTEN
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.arrow import arrow_array
from kbbench_hf.files.datasets import write_dataset
from kbbench_hf.files.list_text import is_bracketed, parse_list, split_readings, whole_number
from kbbench_hf.files.user_tables import DETAILS, read_table
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import EDGE_COLUMNS, NODE_COLUMNS, schema_table, without_dangling, without_zeros

QUESTION_COLUMNS = ("id", "query", "answer_ids")
DROP_DANGLING = "--drop-dangling"
_SPLITS = {"val": "validation", "dev": "validation"}
_SHOWN = 10
_FLOAT = re.compile(r"^(-?\d+)\.0+$")
"""An integer that became a float on its way into csv."""


def build_own_knowledge_base(
    name: str, nodes: Path, edges: Path | None, queries: Path | None, out: Path, drop_dangling: bool = False
) -> list[str]:
    """Build the dataset `name` at `out` from tables, csv or Parquet.

    Args:
        name: the dataset's name.
        nodes: columns `id,type,name,text`; further ones are kept.
        edges: columns `head,relation,tail`; further ones are kept. None where there are only texts.
        queries: columns `id,query,answer_ids` and, if wanted, `split`; further ones are kept. In csv `answer_ids` is a
            JSON list such as `[3, 14]` or `["a", "b"]`, or ids with `;`, `|`, `,` or spaces between them, where only
            one such reading gives nodes. Without `split` all questions are `test`.
        out: the dataset folder to write.
        drop_dangling: leave out edges that lead to no node, gold ids that are no node, and queries without any other
            gold id, in place of refusing them.

    Returns what was left out, in sentences, which also go onto the card.

    Raises:
        DataError: a table is malformed, an edge leads to no node, or a gold id is no node; the first ten are listed.
        UsageError: a file is absent, or the name is taken or no name.
    """
    check_own_name(name, "knowledge base")
    node_table = read_table(nodes, NODE_COLUMNS, [DETAILS])
    no_edges = pa.table({column: arrow_array([], pa.string()) for column in EDGE_COLUMNS})
    edge_table = no_edges if edges is None else read_table(edges, EDGE_COLUMNS, [DETAILS])
    left_out: list[str] = []
    try:
        knowledge_base = KnowledgeBase.from_arrow(node_table, edge_table)
    except DataError:
        kept, n_dangling, shown = without_dangling(node_table, edge_table)
        if not n_dangling:
            raise
        if not drop_dangling or not len(kept):
            raise DataError(
                f"{edges}: {n_dangling:,} of {len(edge_table):,} edges lead to no node: {shown}. Expected ids of "
                f"{nodes}. {_remedy('nodes', 'edges', len(kept))}"
            ) from None
        left_out.append(f"{n_dangling:,} of {len(edge_table):,} edges, which lead to no node: {shown}.")
        edge_table = kept
        knowledge_base = KnowledgeBase.from_arrow(node_table, edge_table)
    graph, ids = knowledge_base.graph, knowledge_base.nodes["id"]
    tables: dict[str, dict[str, pa.Table]] = {}
    if queries is not None:
        tables["queries"] = _questions(queries, ids, left_out if drop_dangling else None)
    plain_nodes, plain_edges = _with_ids(node_table, ids, ("id",)), _with_ids(edge_table, ids, ("head", "tail"))
    schema = schema_table(plain_nodes, plain_edges, graph.node_types, graph.relations)
    tables |= {"nodes": {"full": plain_nodes}, "edges": {"full": plain_edges}, "schema": {"full": schema}}
    write_dataset(out, tables, _card(name, tables, left_out))
    return left_out


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
    return f"Add these {missing}, correct the {dangling}" + (f", or leave them out: {DROP_DANGLING}" if n_kept else ".")


def _with_ids(table: pa.Table, ids: pa.ChunkedArray, columns: tuple[str, ...]) -> pa.Table:
    """Return the table with these columns of node ids in the type that ids have, and no dictionaries."""
    for place, field in enumerate(table.schema):
        kind = pa.string()
        if field.name in columns:
            if pa.types.is_int64(ids.type):
                kind, table = pa.int64(), table.set_column(place, field.name, without_zeros(table[field.name]))
        elif not pa.types.is_dictionary(field.type):
            continue
        table = table.set_column(place, field.name, table[field.name].cast(kind))
    return table


def _questions(file: Path, ids: pa.ChunkedArray, left_out: list[str] | None) -> dict[str, pa.Table]:
    """Return the questions by split; their answers have the type of the node ids.

    Gold ids that are no node are left out and named in `left_out`; where this is None, they are refused.
    """
    table = read_table(file, QUESTION_COLUMNS, ["split"])
    numbers = pa.types.is_int64(ids.type)
    known = set(ids.to_pylist())
    answers = [
        _answers(value, known, numbers, f"{file}, row {row}")
        for row, value in enumerate(table["answer_ids"].to_pylist(), start=1)
    ]
    question_ids = table["id"].to_pylist()
    lost = [
        f"{short_repr(answer)} of query {question}"
        for question, each in zip(question_ids, answers, strict=True)
        for answer in each
        if answer not in known
    ]
    if lost:
        shown = ", ".join(lost[:_SHOWN]) + (" ..." if len(lost) > _SHOWN else "")
        answers = [[answer for answer in each if answer in known] for each in answers]
        answered = pa.array([bool(each) for each in answers])
        n_kept = answered.true_count
        if left_out is None or not n_kept:
            raise DataError(
                f"{file}: {len(lost):,} gold ids are not nodes: {shown}. Expected ids of nodes. "
                f"{_remedy('nodes', 'gold ids', n_kept)}"
            )
        left_out.append(f"{len(lost):,} gold ids, which are not nodes: {shown}.")
        if n_kept < len(table):
            left_out.append(f"{len(table) - n_kept:,} of {len(table):,} queries, which have no other gold id.")
        table, answers = table.filter(answered), [each for each in answers if each]
    kind = pa.list_(pa.int64() if numbers else pa.string())
    table = table.set_column(table.column_names.index("answer_ids"), "answer_ids", arrow_array(answers, kind))
    table = table.set_column(table.column_names.index("id"), "id", _question_ids(table["id"]))
    return _by_split(table, file)


def _answers(value: object, known: Collection[Id], numbers: bool, where: str) -> list[Id]:
    """Return the answer ids of a cell in any notation; without brackets, the one reading that gives nodes.

    Raises:
        DataError: it is no list of ids, or several readings give nodes.
    """
    try:
        if isinstance(value, str) and not is_bracketed(value):
            return _without_brackets(value, known, numbers, where)
        answers = parse_list(value) if isinstance(value, str) else value
        listed: list[Any] = [_exact_id(each) for each in (answers if isinstance(answers, list) else [answers])]
        if listed and all(type(each) in (int, str) for each in listed):
            return [int(each) if numbers else str(each) for each in listed]
    except ValueError:
        pass
    raise DataError(
        f"{where}: answers {short_repr(value)}; expected a list of node ids, "
        f"""{"which are integers here: [3, 14]" if numbers else 'such as ["a"]'}, not empty. Correct the cell."""
    )


def _exact_id(value: Any) -> object:
    """Return an id that was converted to float, decimal, bytes or UUID as the number or text that it was."""
    if isinstance(value, bytes | UUID):
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)
    if isinstance(value, float | Decimal) and -(2**53) < value < 2**53 and value == int(value):
        return int(value)
    return value


def _without_brackets(text: str, known: Collection[Id], numbers: bool, where: str) -> list[Id]:
    readings = [[int(item) if numbers else item for item in items] for items in _readings(text, numbers)]
    fitting = [items for items in readings if all(item in known for item in items)]
    if len(fitting) > 1:
        either = " or ".join(json.dumps(items, ensure_ascii=False) for items in fitting[:2])
        raise DataError(f"{where}: answers {text!r} may be {either}; expected one reading. Write JSON lists.")
    if not readings:
        raise ValueError(text)
    return fitting[0] if fitting else max(readings, key=len)


def _readings(text: str, numbers: bool) -> list[list[str]]:
    """Return the readings of a text without brackets; where nodes are numbers, those that hold nothing else."""
    readings = [items for items in [*split_readings(text).values(), text.split()] if items not in ([], [""])]
    if numbers:
        readings = [[_FLOAT.sub(r"\1", item) for item in items] for items in readings]
    readings = [items for n, items in enumerate(readings) if items not in readings[:n]]
    return [items for items in readings if not numbers or all(whole_number(item) is not None for item in items)]


def _question_ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ids as numbers where all are."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column.cast(pa.string())


def _by_split(table: pa.Table, file: Path) -> dict[str, pa.Table]:
    """Return the questions of each split, the usual three first."""
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


def _card(name: str, tables: dict[str, dict[str, pa.Table]], left_out: list[str]) -> str:
    sizes = ", ".join(f"{len(part):,} {split}" for split, part in tables.get("queries", {}).items())
    questions = f" with questions ({sizes})" if sizes else ""
    return (
        f"---\npretty_name: {name}\ntask_categories:\n- text-retrieval\ntags:\n- knowledge-graph\n---\n\n# {name}\n\n"
        f"A knowledge base of {len(tables['nodes']['full']):,} nodes and {len(tables['edges']['full']):,} edges"
        f"{questions}, built with `kbbench build {name}`.\n"
        + "".join(["\n## Left out\n\n", *(f"- {each}\n" for each in left_out)] if left_out else [])
    )
