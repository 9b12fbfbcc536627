"""Graphs in folders in OGB's layout: numbered nodes, edges without a header, perhaps several node types."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from kbbench_hf.building.graph_formats.collector import NO_RELATION, GraphCollector
from kbbench_hf.building.graph_formats.graph_files import GraphFile
from kbbench_hf.errors import DataError
from kbbench_hf.files.table_files import open_text
from kbbench_hf.files.texts import text_lines


def is_ogb_folder(path: Path) -> bool:
    """Return whether a folder has OGB's list of the numbers of nodes."""
    return path.is_dir() and bool(_found(path, "num-node-list.csv") or _found(path, "num-node-dict.csv"))


def is_ogb(file: GraphFile) -> bool:
    """Return whether a file is a folder in OGB's layout."""
    return file.kind == "folder"


def read_ogb(files: Sequence[GraphFile], graph: GraphCollector) -> None:
    """Add folders in OGB's layout: node numbers become ids, with their type where there are several.

    Source: OGB 1.3, io/read_graph_raw.py.
    """
    for file in files:
        _read_folder(file.path, graph)


def _read_folder(folder: Path, graph: GraphCollector) -> None:
    used = set[Path]()
    if numbers := _found(folder, "num-node-dict.csv"):
        header, *rows = _lines(numbers, used)
    else:
        header, *rows = [""], *_lines(_found(folder, "num-node-list.csv"), used)
    if len(rows) != 1:
        raise DataError(f"{folder} holds {len(rows):,} graphs; expected one line of numbers of nodes. Name one graph.")
    counts = dict(zip(header, map(int, rows[0]), strict=True))
    for kind, count in counts.items():
        names = _mapping(folder, kind or "node", used)
        for number in range(count):
            prefix = f"{kind}:" if len(counts) > 1 else ""
            graph.add_node(f"{prefix}{number}", {}, kind or [], names.get(str(number), []), "")
    for edges in sorted(folder.rglob("edge.csv*")):
        head, relation, tail = edges.parent.name.split("___") if "___" in edges.parent.name else ("", NO_RELATION, "")
        kinds = _found(edges.parent, "edge_reltype.csv")
        names = _mapping(folder, "rel", used)
        relations = [names.get(row[0], row[0]) for row in _lines(kinds, used)] if kinds else []
        for place, row in enumerate(_lines(edges, used)):
            ends = [f"{end}:{each}" if len(counts) > 1 else each for end, each in zip((head, tail), row, strict=True)]
            graph.add_edge(ends[0], ends[1], {}, relations[place] if relations else relation)
    for other in sorted(each for each in folder.rglob("*") if each.is_file() and each not in used):
        graph.skip("Files of OGB's layout that hold no nodes, edges or names", other.relative_to(folder))


def _found(folder: Path, name: str) -> Path | None:
    return next((each for each in sorted(folder.rglob(f"{name}*")) if each.name in (name, f"{name}.gz")), None)


def _lines(file: Path | None, used: set[Path]) -> Iterator[list[str]]:
    """Yield the cells of each line of a csv file, perhaps compressed."""
    if file is None:
        return
    used.add(file)
    with closing(open_text(file)) as opened:
        yield from (row for row in csv.reader(text_lines(opened)) if row)


def _mapping(folder: Path, kind: str, used: set[Path]) -> dict[str, str]:
    """Return number -> name from a file of `mapping`, such as `nodeidx2paperid.csv` or `author_entidx2name.csv`."""
    pattern = re.compile(rf"n?{re.escape(kind)}[a-z_]*2\w+\.csv")
    file = next((each for each in sorted(folder.rglob("mapping/*")) if pattern.match(each.name)), None)
    return {row[0]: row[1] for row in list(_lines(file, used))[1:] if len(row) > 1}
