"""A user's own knowledge base -> the same dataset as a released one: nodes, edges, and questions if there are any."""

import json
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.benchmarks import benchmark_names
from kbbench_hf.benchmarks.answers import Id
from kbbench_hf.benchmarks.retrieval import WRITTEN
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import write_dataset
from kbbench_hf.files.list_text import is_bracketed, parse_list, split_readings, whole_number
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import EDGE_COLUMNS, NODE_COLUMNS, read_table, schema_table

QUESTION_COLUMNS = ("id", "query", "answer_ids")
_SPLITS = {"val": "validation", "dev": "validation"}
_SHOWN = 10


def build_own_knowledge_base(name: str, nodes: Path, edges: Path | None, queries: Path | None, out: Path) -> None:
    """Build the dataset `name` at `out` from tables, csv or Parquet.

    Args:
        name: the dataset's name.
        nodes: columns `id,type,name,text`; further ones are kept.
        edges: columns `head,relation,tail`; further ones are kept. None where there are only texts.
        queries: columns `id,query,answer_ids` and, if wanted, `split`; further ones are kept. In csv `answer_ids` is a
            JSON list such as `[3, 14]` or `["a", "b"]`, or ids with `;`, `|`, `,` or spaces between them, where only
            one such reading gives nodes. Without `split` all questions are `test`.
        out: the dataset folder to write.

    Raises:
        DataError: a table is malformed, an edge leads to no node, or an answer is no node; the first ten are listed.
        UsageError: a file is absent, or the name is taken or no name.
    """
    if name in benchmark_names() or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise UsageError(
            f"{name!r} cannot name your own knowledge base; expected letters, digits, '-', '_' and '.', and none of "
            f"{', '.join(benchmark_names())}. Choose another name."
        )
    node_table = read_table(nodes, NODE_COLUMNS)
    edge_table = _no_edges() if edges is None else read_table(edges, EDGE_COLUMNS)
    knowledge_base = KnowledgeBase.from_arrow(node_table, edge_table)
    graph = knowledge_base.graph
    ids = knowledge_base.nodes["id"]
    tables: dict[str, dict[str, pa.Table]] = {}
    if queries is not None:
        tables["queries"] = _questions(queries, ids)
    plain_nodes = _with_ids(node_table, ids, ("id",))
    plain_edges = _with_ids(edge_table, ids, ("head", "tail"))
    tables["nodes"] = {"full": plain_nodes}
    tables["edges"] = {"full": plain_edges}
    tables["schema"] = {"full": schema_table(plain_nodes, plain_edges, graph.node_types, graph.relations)}
    write_dataset(out, tables, _card(name, tables))


def _with_ids(table: pa.Table, ids: pa.ChunkedArray, columns: tuple[str, ...]) -> pa.Table:
    """Return the table with these columns of node ids in the type that ids have, and no dictionaries."""
    for place, field in enumerate(table.schema):
        kind = pa.string()
        if field.name in columns:
            kind = pa.int64() if pa.types.is_int64(ids.type) else pa.string()
        elif not pa.types.is_dictionary(field.type):
            continue
        table = table.set_column(place, field.name, table[field.name].cast(kind))
    return table


def _questions(file: Path, ids: pa.ChunkedArray) -> dict[str, pa.Table]:
    """Return the questions by split; their answers have the type of the node ids."""
    table = read_table(file, QUESTION_COLUMNS)
    numbers = pa.types.is_int64(ids.type)
    known = set(ids.to_pylist())
    answers = [
        _answers(value, known, numbers, f"{file}, row {row}")
        for row, value in enumerate(table["answer_ids"].to_pylist(), start=1)
    ]
    question_ids = table["id"].to_pylist()
    lost = [
        f"{answer!r} of question {question}"
        for question, each in zip(question_ids, answers, strict=True)
        for answer in each
        if answer not in known
    ]
    if lost:
        shown = ", ".join(lost[:_SHOWN]) + (" ..." if len(lost) > _SHOWN else "")
        raise DataError(
            f"{file}: {len(lost)} answers are no node: {shown}. Add these nodes, or correct the answers: a JSON list "
            'of node ids, such as [3, 14] or ["a"].'
        )
    kind = pa.list_(pa.int64() if numbers else pa.string())
    table = table.set_column(table.column_names.index("answer_ids"), "answer_ids", pa.array(answers, kind))
    table = table.set_column(table.column_names.index("id"), "id", _question_ids(table["id"]))
    return _by_split(table, file)


def _no_edges() -> pa.Table:
    return pa.table({column: pa.array([], pa.string()) for column in EDGE_COLUMNS})


def _answers(value: object, known: Collection[Id], numbers: bool, where: str) -> list[Id]:
    """Return a list of answers however it is written; without brackets it is what gives nodes.

    Raises:
        DataError: it is none, or several readings give nodes.
    """
    try:
        if isinstance(value, str) and not is_bracketed(value):
            return _without_brackets(value, known, numbers, where)
        answers = parse_list(value) if isinstance(value, str) else value
        if isinstance(answers, list) and answers and all(type(each) in (int, str) for each in answers):
            return [int(each) if numbers else str(each) for each in answers]
    except ValueError:
        pass
    raise DataError(f'{where}: answers {value!r}; expected a list of node ids such as [3, 14] or ["a"], not empty.')


def _without_brackets(text: str, known: Collection[Id], numbers: bool, where: str) -> list[Id]:
    readings: list[list[Id]] = [
        [int(item) if numbers else item for item in items] for items in _readings(text, numbers)
    ]
    fitting = [items for items in readings if all(item in known for item in items)]
    if len(fitting) > 1:
        first, second = (json.dumps(items, ensure_ascii=False) for items in fitting[:2])
        raise DataError(
            f"{where}: answers {text!r} may be {first} or {second}; expected one reading. Write JSON lists."
        )
    if not readings:
        raise ValueError(text)
    return fitting[0] if fitting else max(readings, key=len)


def _readings(text: str, numbers: bool) -> list[list[str]]:
    """Return the readings of a text without brackets; where nodes are numbers, those that hold nothing else."""
    readings = [items for items in [*split_readings(text).values(), text.split()] if items not in ([], [""])]
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
        wrong = next((each for each in names if not re.fullmatch(r"\w+", each or "")), "")
        if wrong != "":
            raise DataError(f"{file}: split {wrong!r}; expected a name of letters and digits, such as train or test.")
        column, table = pa.array(names, pa.string()), table.drop_columns("split")
        order = [*(each for each in WRITTEN if each in names), *sorted(set(names) - set(WRITTEN))]
        splits = {name: table.filter(pc.equal(column, name)) for name in order}
    for name, part in splits.items():
        repeated = [each for each, n in Counter(part["id"].to_pylist()).items() if n > 1]
        if repeated:
            raise DataError(f"{file}: question {repeated[0]!r} stands twice in split {name!r}. Give each its own id.")
    return splits


def _card(name: str, tables: dict[str, dict[str, pa.Table]]) -> str:
    sizes = ", ".join(f"{len(part):,} {split}" for split, part in tables.get("queries", {}).items())
    questions = f" with questions ({sizes})" if sizes else ""
    return (
        f"---\npretty_name: {name}\ntask_categories:\n- text-retrieval\ntags:\n- knowledge-graph\n---\n\n# {name}\n\n"
        f"A knowledge base of {len(tables['nodes']['full']):,} nodes and {len(tables['edges']['full']):,} edges"
        f"{questions}, built with `kbbench build {name}`.\n"
    )
