"""Graphs in the formats of other tools, recognized by their content: nodes, edges and queries of a knowledge base.

`own_kb` reads a user's graph with `read_graph`. A new format needs a detector, a reader that adds nodes and edges to a
`GraphCollector`, and its entry in `FORMATS`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pyarrow import ArrowException

from kbbench_hf.building.graph_formats import documents, property_tables, rdf
from kbbench_hf.building.graph_formats.collector import GraphCollector as GraphCollector
from kbbench_hf.building.graph_formats.collector import GraphTables as GraphTables
from kbbench_hf.building.graph_formats.graph_files import GraphFile, probe
from kbbench_hf.errors import DataError, UsageError, unknown_name


class GraphFormat(NamedTuple):
    """A format: its name in messages, its detector (of one file) and its reader (of all files that it detected)."""

    title: str
    matches: Callable[[GraphFile], bool]
    read: Callable[[Sequence[GraphFile], GraphCollector], None]


FORMATS = {
    "neo4j": GraphFormat("Neo4j admin import", property_tables.is_neo4j, property_tables.read_neo4j),
    "apoc": GraphFormat("APOC csv or JSON", documents.is_apoc, documents.read_apoc),
    "primekg": GraphFormat("PrimeKG", property_tables.is_primekg, property_tables.read_primekg),
    "kgx": GraphFormat("KGX", property_tables.is_kgx, property_tables.read_kgx),
    "graphrag": GraphFormat("GraphRAG", property_tables.is_graphrag, property_tables.read_graphrag),
    "beir": GraphFormat("BEIR", property_tables.is_beir, property_tables.read_beir),
    "graphml": GraphFormat("GraphML, also of LightRAG", documents.is_graphml, documents.read_graphml),
    "llamaindex": GraphFormat("LlamaIndex property graph", documents.is_llamaindex, documents.read_llamaindex),
    "node-link": GraphFormat("node-link JSON of networkx", documents.is_node_link, documents.read_node_link),
    "rdf": GraphFormat("N-Triples, Turtle, JSON-LD, RDF/XML", rdf.is_rdf, rdf.read_rdf),
    "obo": GraphFormat("OBO", rdf.is_obo, rdf.read_obo),
    "ogb": GraphFormat("a folder in OGB's layout", property_tables.is_ogb, property_tables.read_ogb),
}
"""Value of `--format` -> format; the first that matches a file counts. `graph_files.KNOWN` has the same names."""
_DAMAGED = (LookupError, TypeError, AttributeError, ValueError, SyntaxError, RecursionError, ArrowException)
"""What a damaged file can raise in a reader."""


def read_graph(paths: Sequence[Path], form: str | None = None, encoding: str = "") -> GraphTables:
    """Return the graph in files of known formats; a folder is read whole, and what has no known format is left out.

    Args:
        paths: files and folders; a file that is named twice is read once.
        form: the name of the format in `FORMATS`; None to detect that of each file.
        encoding: that of text files, where it is not Unicode.

    Raises:
        UsageError: a path does not exist, or `form` is no format.
        DataError: a file that is named has no known format, or is damaged; a folder has files of several formats; or
            there is no node.
    """
    if form is not None and form not in FORMATS:
        raise unknown_name("graph format", form, FORMATS)
    collector, probed = GraphCollector(), list[tuple[Path, GraphFile, str | None]]()
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist; expected a file or folder of a graph. Check the path.")
        for file in _list_files(path):
            if any(file.samefile(each.path) for _, each, _ in probed):
                continue  # named twice, perhaps in a folder too
            try:
                graph_file = probe(file, encoding)
                probed.append((path, graph_file, _detect_format(graph_file, form)))
            except DataError as error:
                if path == file:
                    raise
                reason = str(error).removeprefix(str(file)).partition(". Expected")[0]
                collector.skip("Files that cannot be read", f"{file.relative_to(path)}{reason}")
    for folder in filter(Path.is_dir, paths):  # such as GraphRAG's tables and its GraphML of the same graph
        kinds = sorted({name for path, _, name in probed if path == folder and name})
        if len(kinds) > 1:
            raise DataError(
                f"{folder} holds files of the formats {', '.join(kinds)}, which may be one graph twice; expected one "
                f"format. Name the files, or one format: --format {kinds[0]}"
            )
    headers = [file for _, file, name in probed if name == "neo4j"]
    by_format: dict[str, list[GraphFile]] = {}
    for path, each, name in probed:
        if name is not None or property_tables.header_of(each, headers):
            by_format.setdefault(name or "neo4j", []).append(each)
        elif path == each.path:
            raise _unknown_format(path, form)
        else:
            collector.skip("Files of no known format", each.path.relative_to(path))
    if not by_format:
        raise _unknown_format(", ".join(map(str, paths)), form)
    origin = []
    for known, files in by_format.items():
        names = ", ".join(file.path.name for file in files)
        try:
            FORMATS[known].read(files, collector)
        except _DAMAGED as error:
            raise DataError(
                f"{names}: damaged, or not {FORMATS[known].title} ({type(error).__name__}: {error}). Expected whole "
                "files. Export them again, or name another --format."
            ) from error
        origin.append(f"{FORMATS[known].title}: {names}.")
    return collector.tables(origin)


def _list_files(path: Path) -> list[Path]:
    """Return a file, or the files in a folder and its folders, without hidden ones."""
    if not path.is_dir() or property_tables.is_ogb_folder(path):
        return [path]
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return [each for each in files if not any(part.startswith(".") for part in each.relative_to(path).parts)]


def _detect_format(file: GraphFile, form: str | None) -> str | None:
    """Return the name of the first format that matches a file, of `form` alone where it is given; None for no match."""
    return next((name for name, each in FORMATS.items() if form in (None, name) and each.matches(file)), None)


def _unknown_format(path: object, form: str | None) -> DataError:
    if form is not None:
        return DataError(
            f"{path} is not in the format {form} ({FORMATS[form].title}). Expected a file of this format. Leave out "
            "--format to detect another."
        )
    known = ", ".join(f"{name} ({each.title})" for name, each in FORMATS.items())
    return DataError(
        f"{path} has no known graph format. Expected one of {known}. Convert it, or give your own tables: --nodes "
        "FILE --edges FILE --map nodes.id=COLUMN,..."
    )
