"""STaRK-Prime's official documents.

Format: `stark_qa/skb/prime.py` of snap-stanford/stark (MIT, (c) 2024 Shirley Wu), reproduced because published figures
depend on it. Two forms, which differ in one newline: until June 2024 (commit 674c23d) a blank line followed
`- relations:`, which the tables of the paper's final version no longer had.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.documents.compact import compact_text
from kbbench_hf.knowledge_base.documents.pieces import Edges, Layout, Pool, drawn, edges_of
from kbbench_hf.knowledge_base.documents.rendering import Node, Rendering, Sample
from kbbench_hf.knowledge_base.graph import Graph
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


def _body(node: Node) -> str:
    explained = _GENE_KEYS if node.type == "gene/protein" else {}
    lines = []
    for key, value in node.record.get("details", {}).items():
        if _is_nothing(value) or key.startswith("_") or "_id" in key:
            continue
        if isinstance(value, dict):
            value = _cleaned(value)
        if key not in explained:
            lines.append(f"  - {key}: {value}\n")
            continue
        if key == "interpro":
            value = [family["desc"] for family in ([value] if isinstance(value, dict) else value)]
        elif key == "generif":
            value = " ".join("; ".join([note["text"] for note in value]).split(" ")[:_MAX_WORDS])
        elif key == "genomic_pos" and isinstance(value, list):
            value = value[0]
        lines.append(f"  - {key} ({explained[key]}): {value}\n")
    document = f"- name: {node.name}\n- type: {node.type}\n- source: {node.record['source']}\n"
    return document + ("- details:\n" + "".join(lines) if lines else "")


def _is_nothing(value: object) -> bool:
    """Whether a value prints as nothing or as "nan"."""
    return bool(value == "" or value == "nan" or value != value)


def _cleaned(record: dict[str, object]) -> dict[str, object]:
    """Return a record without the values that are nothing, at any depth of records."""
    found = {key: _cleaned(value) if isinstance(value, dict) else value for key, value in record.items()}
    return {key: value for key, value in found.items() if not _is_nothing(value)}


def _relations(
    kb: KnowledgeBase, rows: NDArray[np.int64], pool: Pool, sample: Sample, title: str = "- relations:"
) -> Layout:
    """Lay out the title, then for each relation `name: {type: (a, b),type: (c),}`."""
    graph = kb.official
    n_relations, n_types = len(graph.relations), len(graph.node_types)
    edges = edges_of(graph.out, rows, np.arange(n_relations))
    neighbors, segments = edges.rows, edges.segments()
    types = graph.type_ids[neighbors]
    places, ordered = _by_type(types, edges, segments)
    neighbors = neighbors.copy()
    neighbors[places], types[places] = neighbors[ordered], types[ordered]
    opens = np.flatnonzero((np.diff(segments, prepend=-1) != 0) | (np.diff(types, prepend=types[:1]) != 0))
    if sample.n > 0:
        groups = np.repeat(np.arange(len(opens)), np.diff(np.append(opens, len(neighbors))))
        kept = drawn(groups, rows[segments // n_relations], neighbors, sample.n, sample.seed)
        neighbors, types, segments = neighbors[kept], types[kept], segments[kept]
        opens = np.flatnonzero(np.diff(groups[kept], prepend=-1))
    offsets = np.append(opens, len(neighbors))
    names, of_group = kb.nodes["name"].chunk(0), segments[opens]
    pieces, lasts = pool.named(names, neighbors, "", ", "), offsets[1:] - 1
    pieces[lasts] = pool.named(names, neighbors[lasts], "", "),")
    lasts = lasts[np.diff(of_group, append=-1) != 0]
    pieces[lasts] = pool.named(names, neighbors[lasts], "", "),}")
    kinds = (np.diff(of_group, prepend=-1) != 0).astype(np.int64) + (np.diff(of_group // n_relations, prepend=-1) != 0)
    heads = pool.add(_heads(graph, title)) + (kinds * n_relations + of_group % n_relations) * n_types + types[opens]
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


def _by_type(
    types: NDArray[np.integer], edges: Edges, segments: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of neighbours in segments of several types, and those that should stand there instead.

    Neighbours of one type then stand together, and the types in upstream's order.

    Upstream iterates a Python set of type numbers. It ascends, but for numbers from 8 on in a set of up to four, which
    wrap around its table of eight slots: Prime's cellular_component (8) and exposure (9) then stand first. The set is
    built again here, once for each different sequence of types.
    """
    turns = np.flatnonzero((types[1:] != types[:-1]) & (segments[1:] == segments[:-1]))
    mixed = np.unique(segments[turns])
    if not len(mixed):
        return mixed, mixed
    lengths = edges.offsets[mixed + 1] - edges.offsets[mixed]
    owners = np.repeat(np.arange(len(mixed)), lengths)
    places = np.arange(lengths.sum()) + np.repeat(edges.offsets[mixed] - np.cumsum(lengths) + lengths, lengths)
    n_types = int(types.max()) + 1
    found, first = np.unique(owners * n_types + types[places], return_index=True)
    found = found[np.argsort(first)]
    owner = found // n_types
    rank = np.arange(len(found)) - np.searchsorted(owner, owner)
    sequences = np.full((len(mixed), rank.max() + 1), -1)
    sequences[owner, rank] = found % n_types
    patterns, pattern_of = np.unique(sequences, axis=0, return_inverse=True)
    ranks = np.zeros((len(patterns), n_types), np.int64)
    for pattern, sequence in enumerate(patterns.tolist()):
        ordered = list({number for number in sequence if number >= 0})
        ranks[pattern, ordered] = np.arange(len(ordered))
    keys = owners * n_types + ranks[pattern_of.ravel()[owners], types[places]]
    return places, places[np.argsort(keys, kind="stable")]


RENDERING = Rendering(_body, _relations, compact_text)
FIRST = Rendering(_body, partial(_relations, title="- relations:\n"), compact_text)
"""As until June 2024, with a blank line before the relations."""
