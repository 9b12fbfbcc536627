"""Graphs in tables: Neo4j admin import, PrimeKG, KGX, GraphRAG and BEIR; numbered ones in folders of OGB.

For each format there is a detector of one file and a reader, which adds the nodes and edges of all its files to a
collector. `graph_formats.FORMATS` lists them.
"""

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.building.graph_formats.collector import (
    NO_RELATION,
    GraphCollector,
    id_text,
    split_labels,
    with_judgments,
)
from kbbench_hf.building.graph_formats.graph_files import KNOWN, GraphFile
from kbbench_hf.errors import DataError
from kbbench_hf.files.arrow import arrow_array
from kbbench_hf.files.packing import text_lines
from kbbench_hf.files.table_files import CHUNK, csv_columns, csv_options, file_errors, open_text
from kbbench_hf.files.trec import Judgments, read_qrels
from kbbench_hf.knowledge_base.tables import EDGE_COLUMNS

_HEADER = re.compile(
    r"(?P<name>[^:]*)(:(?P<kind>[A-Za-z_]+)(\((?P<space>[^)]*)\))?(\{.*\})?(?P<array>\[\])?(\{.*\})?)?"
)
"""A column of Neo4j's import: `name:ID(space)`, `:LABEL`, `born:int`, `tags:string[]`, `name`."""
_ROLES = ("ID", "LABEL", "START_ID", "END_ID", "TYPE", "IGNORE")
_NUMBERS = {
    **dict.fromkeys(("int", "long", "short", "byte"), pa.int64()),
    **dict.fromkeys(("float", "double"), pa.float64()),
    "boolean": pa.bool_(),
}
"""Types of Neo4j's columns that are not text."""
_BLOCK = 16 << 20
"""Bytes of csv in one block: larger ones need more memory and are not faster."""


def is_neo4j(file: GraphFile) -> bool:
    """Return whether a csv file has Neo4j's header."""
    kinds = {match["kind"] for name in file.columns if (match := _HEADER.fullmatch(name))}
    return file.is_table and ("ID" in kinds or {"START_ID", "END_ID"} <= kinds)


def header_of(file: GraphFile, headers: Sequence[GraphFile]) -> GraphFile | None:
    """Return the file that holds the header of a csv file without one: `movies-header.csv` of `movies-1.csv`."""
    for header in headers:
        base = re.sub(r"[-_.]?header.*", "", header.path.name, flags=re.IGNORECASE)
        is_named = header.path != file.path and file.path.name.startswith(base) and base != header.path.name
        if file.kind == "text":  # ids alone, on lines without a delimiter
            fits = len(header.columns) == 1 and file.path.suffix == header.path.suffix
        else:
            fits = file.kind == "csv" and len(file.columns) == len(header.columns)
        if is_named and fits and not is_neo4j(file):
            return header
    return None


def read_neo4j(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add files for `neo4j-admin database import`; where ids of several id spaces meet, they get the space as prefix.

    Source: Neo4j's operations manual, "CSV header format".
    """
    tables = [_neo4j_table(file, files) for file in files]
    ids: dict[str, set[str]] = {}
    for table in tables:
        for column in _columns_of_kind(table, "ID"):
            ids.setdefault(column["space"] or "", set()).update(table[column.string].to_pylist())
    meet = sum(map(len, ids.values())) > len(set[str]().union(*ids.values()))
    spaces = {space for space in ids if meet and space}
    for table in tables:
        if (node_ids := _neo4j_ids(table, "ID", spaces)) is not None:
            _add_neo4j_nodes(graph, table, node_ids)
            continue
        kinds = _columns_of_kind(table, "TYPE")
        relation = table[kinds[0].string] if kinds else pa.nulls(len(table), pa.string())
        ends = {end: _neo4j_ids(table, kind, spaces) for end, kind in (("head", "START_ID"), ("tail", "END_ID"))}
        graph.add_edges(pa.table({**ends, "relation": relation, **_typed_columns(graph, table)}))


def _columns_of_kind(table: pa.Table, kind: str) -> list[re.Match[str]]:
    """Return the matches of `_HEADER` for the columns of a kind, such as `ID` or `LABEL`, in their order."""
    matches = (_HEADER.fullmatch(name) for name in table.column_names)
    return [match for match in matches if match and match["kind"] == kind]


def _neo4j_table(file: GraphFile, files: Sequence[GraphFile]) -> pa.Table:
    """Return the rows of a file under its own header or that of another file; cells without blanks around them."""
    table = file.table()
    if header := header_of(file, files):  # the first line, taken for names, is a row
        first = pa.table([[name] for name in table.column_names], names=list(header.columns))
        table = pa.concat_tables([first, table.rename_columns(list(header.columns))])
    columns = [pc.utf8_trim_whitespace(each) if pa.types.is_string(each.type) else each for each in table.columns]
    return pa.table(columns, header.columns if header else file.columns)


def _neo4j_ids(table: pa.Table, kind: str, spaces: Collection[str]) -> pa.ChunkedArray | None:
    """Return ids as text, those of several columns as one, with their space as prefix if it is in `spaces`.

    None where the table has no such column; "" in rows without an id.
    """
    columns = _columns_of_kind(table, kind)
    if not columns:
        return None
    ids = pc.binary_join_element_wise(*(table[column.string] for column in columns), ":")
    space = columns[0]["space"]
    if space not in spaces:
        return ids
    return pc.if_else(pc.equal(ids, ""), "", pc.binary_join_element_wise(space, ids, ":"))


def _add_neo4j_nodes(graph: GraphCollector, table: pa.Table, ids: pa.ChunkedArray) -> None:
    labels = _columns_of_kind(table, "LABEL")
    kinds = table[labels[0].string] if labels else pa.nulls(len(table), pa.string())
    rows = pa.table({":ID": ids, ":LABEL": kinds, **_typed_columns(graph, table)})
    for batch in rows.to_batches(CHUNK):
        for row in batch.to_pylist():
            graph.add_node(row.pop(":ID"), row, split_labels(row.pop(":LABEL")))


def _typed_columns(graph: GraphCollector, table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Return property -> its values in their types, null for none; properties without any value are left out.

    A column with values that are none of its type stays text, which is counted in `graph`.
    """
    typed: dict[str, pa.ChunkedArray] = {}
    for column in (_HEADER.fullmatch(name) for name in table.column_names):
        texts = pc.fill_null(table[column.string], "") if column and column["kind"] not in _ROLES else None
        if column is None or texts is None or not pc.any(pc.not_equal(texts, "")).as_py():
            continue
        name = f"{column['name']}_property" if column["name"] in (*EDGE_COLUMNS, *typed) else column["name"]
        kind = _NUMBERS.get((column["kind"] or "").lower(), pa.string())
        values = typed[name] = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        try:
            if column["array"]:
                typed[name] = pc.split_pattern(values, ";").cast(pa.list_(kind))
            elif not pa.types.is_string(kind):
                typed[name] = values.cast(kind)
        except pa.ArrowInvalid as error:
            graph.skip(
                f"Types of columns that do not fit, whose values are text (:{column['kind']})", f"{name}: {error}"
            )
    return typed


def is_primekg(file: GraphFile) -> bool:
    """Return whether a table is PrimeKG's `kg.csv`, or its `nodes.csv` or `edges.csv`."""
    edges = file.has("relation", "x_index", "y_index") or file.has("relation", "x_id", "x_type", "y_id", "y_type")
    return file.is_table and (edges or file.has("node_index", "node_type", "node_name"))


def read_primekg(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add PrimeKG's files, read in blocks; nodes have their index as id, or type and id where there is no index."""
    for file in files:
        if file.has("node_index"):
            for row in file.rows():
                further = {"id": row.get("node_id"), "source": row.get("node_source")}
                graph.add_node(row["node_index"], further, row["node_type"], row["node_name"])
            continue
        known = pa.array([], pa.int64() if file.has("x_index") else pa.string())
        for batch in _read_batches(file):
            columns = {
                "head": _primekg_ids(batch, "x"),
                "relation": batch["relation"],
                "tail": _primekg_ids(batch, "y"),
            }
            for side in ("x", "y"):
                if file.has(f"{side}_type"):
                    known = _add_primekg_nodes(graph, batch, side, known)
            if file.has("display_relation"):
                columns["display_relation"] = batch["display_relation"].dictionary_encode()
            graph.add_edges(pa.table(columns))


def _read_batches(file: GraphFile, unquoted: str = "") -> Iterator[pa.Table]:
    """Yield the rows of a table in blocks, cells of csv as text; quotes are text where `unquoted` is the delimiter."""
    if file.kind != "csv":
        table = file.table()
        yield pa.table([column.cast(pa.string()) for column in table.columns], table.column_names)
        return
    from pyarrow import csv as arrow_csv

    with file_errors(file.path, KNOWN), closing(file.open()) as opened:
        delimiter, names = csv_columns(opened, ())
        options = csv_options(delimiter, names, _BLOCK, delimiter != unquoted and '"')
        for batch in arrow_csv.open_csv(opened.stream, **options):
            yield pa.Table.from_batches([batch]).rename_columns([name.strip() for name in names])


def _primekg_ids(batch: pa.Table, side: str) -> pa.ChunkedArray:
    """Return the ids of the nodes at one side, `x` or `y`: their index, or `type:id` where there is no index."""
    if f"{side}_index" in batch.column_names:
        return batch[f"{side}_index"].cast(pa.int64())
    return pc.binary_join_element_wise(batch[f"{side}_type"], batch[f"{side}_id"], ":")


def _add_primekg_nodes(graph: GraphCollector, batch: pa.Table, side: str, known: pa.Array) -> pa.Array:
    """Add the nodes that a block names first; return the ids that are known now."""
    ids = _primekg_ids(batch, side)
    new = pc.invert(pc.is_in(ids, value_set=known))
    batch, encoded = batch.filter(new), ids.filter(new).combine_chunks().dictionary_encode()
    _, first = np.unique(encoded.indices.to_numpy(), return_index=True)
    rows = batch.take(pa.array(first)).to_pylist()
    for node_id, row in zip(encoded.dictionary.to_pylist(), rows, strict=True):
        further = {"id": row.get(f"{side}_id"), "source": row.get(f"{side}_source")}
        graph.add_node(node_id, further, row[f"{side}_type"], row.get(f"{side}_name") or [])
    return pa.concat_arrays([known, encoded.dictionary.cast(known.type)])


def is_kgx(file: GraphFile) -> bool:
    """Return whether a table, or a JSON document, has KGX's nodes or edges."""
    if isinstance(file.document, dict) and file.has("nodes", "edges"):
        nodes, edges = file.document["nodes"], file.document["edges"]
        first: Any = next((rows[0] for rows in (edges, nodes) if isinstance(rows, list) and rows), {})
        return isinstance(first, dict) and ({"subject", "predicate", "object"} <= first.keys() or "category" in first)
    return file.is_table and (file.has("id", "category") or file.has("subject", "predicate", "object"))


def read_kgx(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add KGX files, tab-separated or JSON; of several categories the first is the type.

    Source: the KGX format specification of Biolink, and kgx/source/tsv_source.py: quotes are text between tabs.
    """
    names = {"subject": "head", "predicate": "relation", "object": "tail", "relation": "kgx_relation"}
    for file in files:
        nodes: Iterable[Mapping[str, Any]] = ()
        edges: Iterable[Mapping[str, Any]] = ()
        if file.has("nodes", "edges"):
            nodes, edges = file.document["nodes"], file.document["edges"]
        elif not file.has("subject"):
            in_batches = chain.from_iterable(batch.to_pylist() for batch in _read_batches(file, "\t"))
            nodes = in_batches if file.kind == "csv" else file.rows()
        elif file.kind == "csv":
            for batch in _read_batches(file, "\t"):
                graph.add_edges(batch.rename_columns([names.get(name, name) for name in batch.column_names]))
        else:
            edges = file.rows()
        for row in nodes:
            kinds = row.get("category")
            further = {name: value for name, value in row.items() if name not in ("id", "category")}
            graph.add_node(row.get("id"), further, split_labels(kinds, "|") if isinstance(kinds, str) else kinds or [])
        for row in edges:
            further = {name: value for name, value in row.items() if name not in ("subject", "predicate", "object")}
            graph.add_edge(row.get("subject"), row.get("object"), further, row.get("predicate"))


def is_graphrag(file: GraphFile) -> bool:
    """Return whether a table is GraphRAG's entities or relationships (or its other tables, which are left out)."""
    return file.is_table and (file.has("human_readable_id") or file.has("text_unit_ids"))


def read_graphrag(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add GraphRAG's entities and relationships, which name entities by their titles.

    Source: GraphRAG's outputs page; before 1.0 the title was the column `name`.
    """
    entities, relationships = list[GraphFile](), list[GraphFile]()
    for file in files:
        if file.has("type", "description") and not file.has("level") and (file.has("title") or file.has("name")):
            entities.append(file)
        elif file.has("source", "target"):
            relationships.append(file)
        else:
            graph.skip("Tables of GraphRAG that are no entities or relationships", file.path.name)
    ids: dict[str, str] = {}
    for file in entities:
        for row in file.rows():
            title = id_text(row.pop("title", None) or row.get("name"))
            node_id = id_text(row.pop("id", None)) or title
            if ids.setdefault(title, node_id) != node_id and title:
                graph.skip("Entities that share the title of an earlier one, to which the relationships lead", title)
            kind = row.pop("type", None)
            graph.add_node(node_id, {**row, "name": None}, kind or [], title)
    for file in relationships:
        table = file.table()
        ends = {}
        for name, end in (("source", "head"), ("target", "tail")):
            titles = table[name].to_pylist()
            ends[end] = arrow_array([ids.get(id_text(title), id_text(title)) for title in titles], pa.string())
        further = {name: table[name] for name in table.column_names if name not in (*ends, "source", "target")}
        graph.add_edges(pa.table({**ends, "relation": pa.nulls(len(table), pa.string()), **further}))


def is_beir(file: GraphFile) -> bool:
    """Return whether a table is BEIR's corpus, queries or judgments."""
    return file.is_table and (file.has("_id", "text") or file.has("query-id", "corpus-id", "score"))


def read_beir(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add a BEIR folder: documents become nodes, judged queries the questions of the split that names the judgments."""
    judged: dict[str, Judgments] = {}
    for file in files:
        if file.has("corpus-id"):
            of_split = judged.setdefault(_split_of(file), {})
            for query, grades in _read_judgments(file).items():  # a split may be in several files
                of_split.setdefault(query, {}).update(grades)
    judged_queries = {query for each in judged.values() for query in each}
    texts, query_files = dict[str, str](), _find_query_files(files, judged_queries)
    for file in files:
        if file.has("corpus-id"):
            continue
        for row in file.rows():
            node_id, title, text = (row.pop(name, None) for name in ("_id", "title", "text"))
            if file in query_files:
                texts[id_text(node_id)] = id_text(text)
            else:
                graph.add_node(node_id, row, "document", title or "", id_text(text))
    for query in [*(each for each in texts if each not in judged_queries), *sorted(judged_queries - texts.keys())]:
        graph.skip("Queries without a judgment" if query in texts else "Judged queries without a text", query)
    columns = {"id": [*texts], "query": [*texts.values()]}
    table = pa.table({name: arrow_array(values, pa.string()) for name, values in columns.items()})
    parts = []
    for split, each in judged.items():
        part = with_judgments(table, each, [])
        parts.append(part.append_column("split", pa.array([split] * len(part), pa.string())))
    if any(map(len, parts)):
        graph.queries = pa.concat_tables(parts), "its judgments"


def _split_of(file: GraphFile) -> str:
    """Return the split that the name of a file of judgments begins with: `test.tsv`, `test-00000-of-00001.parquet`.

    After "qrels" it may follow: `qrels_dev.tsv`, `qrels.dev.tsv`. The judgments of other names are of `test`.
    """
    first, *others = re.split(r"\W+", file.path.name)
    usual = (each for each in others if each in ("train", "dev", "val", "validation"))
    return first.removeprefix("qrels_").replace("qrels", "") or next(usual, "test")


def _read_judgments(file: GraphFile) -> Judgments:
    """Return the grades of a BEIR file of judgments, by query and document."""
    if file.kind == "csv":
        return read_qrels(file.path, file.encoding)
    judged: Judgments = {}
    for row in file.rows():
        judged.setdefault(id_text(row["query-id"]), {})[id_text(row["corpus-id"])] = int(row["score"])
    return judged


def _find_query_files(files: Sequence[GraphFile], asked: set[str]) -> list[GraphFile]:
    """Return the files of queries: those named so, else those without titles that hold all judged queries."""
    rows = [file for file in files if not file.has("corpus-id")]
    if named := [file for file in rows if "quer" in file.path.name.lower()]:
        return named
    untitled = [file for file in rows if asked and not file.has("title")]
    return [file for file in untitled if asked <= {id_text(row.get("_id")) for row in file.rows()}]


def is_ogb_folder(path: Path) -> bool:
    """Return whether a folder has OGB's list of the numbers of nodes."""
    return path.is_dir() and any(_find_file(path, f"num-node-{kind}.csv") for kind in ("list", "dict"))


def is_ogb(file: GraphFile) -> bool:
    """Return whether a file is a folder in OGB's layout."""
    return file.kind == "folder"


def read_ogb(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add folders in OGB's layout: node numbers become ids, with their type where there are several.

    Source: OGB 1.3, io/read_graph_raw.py.
    """
    for folder in (file.path for file in files):
        used = set[Path]()
        if numbers := _find_file(folder, "num-node-dict.csv"):
            header, *rows = _read_cells(numbers, used)
        else:
            header, *rows = [""], *_read_cells(_find_file(folder, "num-node-list.csv"), used)
        if len(rows) != 1:
            raise DataError(
                f"{folder} holds {len(rows):,} graphs; expected one line of numbers of nodes. Name one graph."
            )
        counts = dict(zip(header, map(int, rows[0]), strict=True))
        for kind, count in counts.items():
            names = _read_mapping(folder, kind or "node", used)
            for number in range(count):
                prefix = f"{kind}:" if len(counts) > 1 else ""
                graph.add_node(f"{prefix}{number}", {}, kind or [], names.get(str(number), []), "")
        for edges in sorted(folder.rglob("edge.csv*")):
            parts = edges.parent.name.split("___")  # author___writes___paper
            head, relation, tail = parts if len(parts) > 1 else ("", NO_RELATION, "")
            kinds = _find_file(edges.parent, "edge_reltype.csv")
            names = _read_mapping(folder, "rel", used)
            relations = [names.get(row[0], row[0]) for row in _read_cells(kinds, used)] if kinds else []
            for place, (start, end) in enumerate(_read_cells(edges, used)):
                if len(counts) > 1:
                    start, end = f"{head}:{start}", f"{tail}:{end}"
                graph.add_edge(start, end, {}, relations[place] if relations else relation)
        for other in sorted(each for each in folder.rglob("*") if each.is_file() and each not in used):
            graph.skip("Files of OGB's layout that hold no nodes, edges or names", other.relative_to(folder))


def _find_file(folder: Path, name: str) -> Path | None:
    """Return the first file of that name in a folder and its folders, perhaps compressed; None where there is none."""
    return next((each for each in sorted(folder.rglob(f"{name}*")) if each.name in (name, f"{name}.gz")), None)


def _read_cells(file: Path | None, used: set[Path]) -> Iterator[list[str]]:
    """Yield the cells of each line of a csv file, perhaps compressed, and add it to `used`; nothing without a file."""
    if file is None:
        return
    used.add(file)
    with closing(open_text(file)) as opened:
        yield from (row for row in csv.reader(text_lines(opened)) if row)


def _read_mapping(folder: Path, kind: str, used: set[Path]) -> dict[str, str]:
    """Return number -> name from a file of `mapping`, such as `nodeidx2paperid.csv` or `author_entidx2name.csv`.

    The file is added to `used`; without one, there are no names.
    """
    pattern = re.compile(rf"n?{re.escape(kind)}[a-z_]*2\w+\.csv")
    file = next((each for each in sorted(folder.rglob("mapping/*")) if pattern.match(each.name)), None)
    return {row[0]: row[1] for row in list(_read_cells(file, used))[1:] if len(row) > 1}
