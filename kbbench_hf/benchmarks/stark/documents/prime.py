"""STaRK-Prime's official documents.

Format: `stark_qa/skb/prime.py` of snap-stanford/stark (MIT, (c) 2024 Shirley Wu), reproduced because published scores
depend on it. Two forms, which differ in one newline: until June 2024 (commit 674c23d) a blank line followed
`- relations:`, which the tables of the paper's final version no longer had.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.documents import (
    Layout,
    NeighborLists,
    Node,
    PiecePool,
    Rendering,
    Sample,
    compact_text,
    edges_of,
)
from kbbench_hf.knowledge_base.graph import Graph, spans
from kbbench_hf.knowledge_base.store import KnowledgeBase

_GENE_KEYS = {
    "name": "gene name",
    "type_of_gene": "gene types",
    "alias": "other gene names",
    "other_names": "extended other gene names",
    "genomic_pos": "genomic position",
    "generif": "PubMed text",
    "interpro": "protein family and classification information",
    "summary": "protein summary text",
}
_MAX_WORDS = 50_000
_GENE_RECORDS: dict[str, Callable[[Any], object]] = {
    "interpro": lambda found: [family["desc"] for family in ([found] if isinstance(found, dict) else found)],
    "generif": lambda notes: " ".join("; ".join([note["text"] for note in notes]).split(" ")[:_MAX_WORDS]),
    "genomic_pos": lambda places: places[0] if isinstance(places, list) else places,
}
"""What is written of the records about a gene."""
_NOTHING = ("", "nan")
"""Values that are not written, as is the number that does not equal itself."""


class _Labels(dict[str, str]):
    """What stands before the value of each key, made when it is first asked for; nothing where none is written."""

    def __init__(self, explained: dict[str, str]) -> None:
        self._explained = explained

    def __missing__(self, key: str) -> str:
        explained = f" ({self._explained[key]})" if key in self._explained else ""
        self[key] = "" if key.startswith("_") or "_id" in key else f"  - {key}{explained}: "
        return self[key]


_GENE_LABELS, _OTHER_LABELS = _Labels(_GENE_KEYS), _Labels({})


def _body(node: Node) -> str:
    name, node_type, _, record, _ = node
    is_gene = node_type == "gene/protein"
    labels = _GENE_LABELS if is_gene else _OTHER_LABELS
    lines = []
    for key, value in record.get("details", {}).items():
        label = labels[key]
        if not label or value in _NOTHING or value != value:
            continue
        if type(value) is dict:
            value = _cleaned(value)
        if is_gene and key in _GENE_RECORDS:
            value = _GENE_RECORDS[key](value)
        lines.append(f"{label}{value}\n")
    document = f"- name: {name}\n- type: {node_type}\n- source: {record['source']}\n"
    return f"{document}- details:\n{''.join(lines)}" if lines else document


def _cleaned(record: dict[str, object]) -> dict[str, object]:
    """Return a record without the values that are nothing, at any depth of records."""
    found = {key: _cleaned(value) if isinstance(value, dict) else value for key, value in record.items()}
    return {key: value for key, value in found.items() if not (value in _NOTHING or value != value)}


def _relations(
    kb: KnowledgeBase, rows: NDArray[np.int64], pool: PiecePool, sample: Sample, title: str = "- relations:"
) -> Layout:
    """Lay out the title, then for each relation `name: {type: (a, b),type: (c),}`."""
    graph = kb.official
    n_relations, n_types = len(graph.relations), len(graph.node_types)
    neighbors, offsets, of_group, types = _groups(edges_of(graph.out, rows, np.arange(n_relations)), graph.type_ids)
    if sample.n > 0:
        offsets, neighbors = NeighborLists(offsets, neighbors).sampled(rows[of_group // n_relations], sample)
    names, lasts = kb.nodes["name"].chunk(0), offsets[1:] - 1
    pieces = pool.named(names, neighbors, "", ", ")
    pieces[lasts] = pool.named(names, neighbors[lasts], "", "),")
    lasts = lasts[np.diff(of_group, append=-1) != 0]
    pieces[lasts] = pool.named(names, neighbors[lasts], "", "),}")
    kinds = (np.diff(of_group, prepend=-1) != 0).astype(np.int64) + (np.diff(of_group // n_relations, prepend=-1) != 0)
    heads = pool.add(_heads(graph, title)) + (kinds * n_relations + of_group % n_relations) * n_types + types
    documents = np.searchsorted(of_group, np.arange(len(rows) + 1) * n_relations)
    return Layout(pieces, offsets).begin(heads).merged(documents)


def _heads(graph: Graph, title: str) -> list[str]:
    """Return what stands before each group: of a further type, of a further relation, of the first relation."""
    heads = [f"{node_type}: (" for _ in graph.relations for node_type in graph.node_types]
    for first in ("", title):
        for relation in graph.relations:
            label = relation.replace(" ", "_")
            heads += [f"{first}\n  {label}: {{{node_type}: (" for node_type in graph.node_types]
    return heads


def _groups(
    edges: NeighborLists, type_ids: NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the neighbors so that those of one type stand together in each segment, the types in upstream's order.

    Also the offsets of these groups, the segment of each and its type. Neighbors ascend, so mostly they come in few
    runs of one type: the runs are put in order, and only those of segments with several are moved.
    """
    neighbors, types = edges.rows, type_ids.take(edges.rows)
    some = np.flatnonzero(np.diff(edges.offsets) > 0)
    is_first = np.zeros(len(types), bool)
    is_first[edges.offsets[some]] = True
    begins = is_first.copy()
    begins[1:] |= types[1:] != types[:-1]
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(neighbors))
    of_run, type_of_run = some[np.cumsum(is_first[starts]) - 1], types[starts].astype(np.int64)
    same = np.diff(of_run, prepend=-1, append=-1) == 0
    mixed = np.flatnonzero(same[1:] | same[:-1])
    if len(mixed):
        ordered = mixed[_order(of_run[mixed], type_of_run[mixed])]
        places, _ = spans(starts[mixed], starts[mixed] + lengths[mixed])
        moved, _ = spans(starts[ordered], starts[ordered] + lengths[ordered])
        neighbors = neighbors.copy()
        neighbors[places] = neighbors[moved]
        lengths[mixed], type_of_run[mixed] = lengths[ordered], type_of_run[ordered]
    opens = np.flatnonzero(np.diff(of_run, prepend=-1) | np.diff(type_of_run, prepend=-1))
    offsets = np.append(np.cumsum(lengths)[opens] - lengths[opens], len(neighbors))
    return neighbors, offsets, of_run[opens], type_of_run[opens]


def _order(owners: NDArray[np.int64], types: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order of runs of several owners, which ascend, in which their types stand in upstream's order.

    Upstream iterates a Python set of type numbers. It ascends, but for numbers from 8 on in a set of up to four, which
    wrap around its table of eight slots: Prime's cellular_component (8) and exposure (9) then stand first. The set is
    built again here, once for each different sequence of types.
    """
    owners, n_types = np.cumsum(np.diff(owners, prepend=owners[:1]) != 0), int(types.max()) + 1
    found, first = np.unique(owners * n_types + types, return_index=True)
    found = found[np.argsort(first)]
    owner = found // n_types
    rank = np.arange(len(found)) - np.searchsorted(owner, owner)
    sequences = np.full((owners[-1] + 1, rank.max() + 1), -1)
    sequences[owner, rank] = found % n_types
    as_bytes = sequences.view(f"V{sequences.itemsize * sequences.shape[1]}").ravel()
    _, examples, pattern_of = np.unique(as_bytes, return_index=True, return_inverse=True)
    ranks = np.zeros((len(examples), n_types), np.int64)
    for pattern, sequence in enumerate(sequences[examples].tolist()):
        ordered = list({number for number in sequence if number >= 0})
        ranks[pattern, ordered] = np.arange(len(ordered))
    return np.argsort(owners * n_types + ranks[pattern_of[owners], types], kind="stable")


RENDERING = Rendering(_body, _relations, compact_text)
FIRST = Rendering(_body, partial(_relations, title="- relations:\n"), compact_text)
"""As until June 2024, with a blank line before the relations."""
