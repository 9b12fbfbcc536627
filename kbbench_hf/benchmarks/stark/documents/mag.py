"""STaRK-MAG's official documents.

Format: `stark_qa/skb/mag.py` of snap-stanford/stark (MIT, (c) 2024 Shirley Wu), reproduced because published scores
depend on it. Relations are written for papers only.

Differs from upstream: `n_rel` works, where a positive one raised TypeError; it samples citations alone, as was meant. A
paper without abstract has an empty one, where upstream raised AttributeError.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
    sample_edges,
    surrounded,
)
from kbbench_hf.knowledge_base.graph import Graph
from kbbench_hf.knowledge_base.store import KnowledgeBase

_AFFILIATION = "author___affiliated_with___institution"
_CITATION = "paper___cites___paper"
_HEADINGS = {
    "author": ("- author name", "- author"),
    "field_of_study": (" - field of study", "- field"),
    "institution": (" - institution", "- institution"),
}
_VENUES = {
    "OriginalVenue": "venue",
    "JournalDisplayName": "journal",
    "ConferenceSeriesDisplayName": "conference",
    "ConferenceInstancesDisplayName": "conference",
}


def _body(node: Node) -> str:
    return _paper(node.record) if node.type == "paper" else _named(node)


def _paper(record: dict[str, object]) -> str:
    """Return the document of a paper: title, abstract, date, and the first of its venues that is known."""
    abstract = record["abstract"]
    prose = abstract.replace("\r", "").rstrip("\n") if isinstance(abstract, str) else ""
    document = f" - paper title: {record['title']}\n - abstract: {prose}\n"
    if str(record["Date"]) != "-1":
        document += f" - publication date: {record['Date']}\n"
    for key, label in _VENUES.items():
        if str(record[key]) != "-1":
            return document + f" - {label}: {record[key]}\n"
    return document


def _named(node: Node) -> str:
    """Return the document of an author, field or institution; every "-1" in it becomes "Unknown", in names as well."""
    title, what = _HEADINGS[node.type]
    document = f"{title}: {node.record['DisplayName']}\n"
    for key, label in (("PaperCount", "paper count"), ("CitationCount", "citation count")):
        if node.record[key] != -1:
            document += f"{what} {label}: {node.record[key]}\n"
    return document.replace("-1", "Unknown")


def _relations(kb: KnowledgeBase, rows: NDArray[np.int64], pool: PiecePool, sample: Sample) -> Layout:
    """Lay out `- relations:`, then for each relation `author writes paper: (A (I, J), B),`."""
    graph = kb.official
    n_relations, papers = len(graph.relations), graph.type_id("paper")
    edges = edges_of(graph.out, rows, np.arange(n_relations))
    of_paper = np.repeat(graph.type_ids[rows] == papers, n_relations)
    edges = edges.keep(of_paper[edges.segments()])
    if sample.n > 0:
        edges = _with_fewer_citations(edges, rows, n_relations, graph.relation_id(_CITATION), sample)
    related = np.flatnonzero(np.diff(edges.offsets))
    strings, places, shown = _shown_names(kb, graph, edges.rows)
    edges = NeighborLists(edges.offsets, places).keep(shown)
    inner, last = (pool.add(surrounded("", strings, after)) for after in (", ", "),"))
    pieces, lengths = edges.rows.astype(np.int64) + inner, np.diff(edges.offsets)
    pieces[edges.offsets[1:][lengths > 0] - 1] += last - inner
    first = np.diff(related // n_relations, prepend=-1) != 0
    kinds = first * 2 + (lengths[related] == 0)
    heads = pool.add(_heads(graph)) + kinds * n_relations + related % n_relations
    return Layout(pieces, edges.offsets).begin(heads, related).merged(np.arange(len(rows) + 1) * n_relations)


def _heads(graph: Graph) -> list[str]:
    """Return what stands before a relation's names, or in place of none: of a later relation, then of the first."""
    labels = [relation.replace("___", " ") for relation in graph.relations]
    return [
        f"{first}\n{label}: ({'),' if empty else ''}"
        for first in ("", "- relations:\n")
        for empty in (False, True)
        for label in labels
    ]


def _with_fewer_citations(
    edges: NeighborLists, rows: NDArray[np.int64], n_relations: int, citation: int, sample: Sample
) -> NeighborLists:
    """Return edges with a sample of each paper's citations, all others unchanged and in order."""
    segments = edges.segments()
    citing = np.flatnonzero(segments % n_relations == citation)
    kept = sample_edges(
        segments[citing], rows[segments[citing] // n_relations], edges.rows[citing], sample.n, sample.seed
    )
    order = np.concatenate([np.flatnonzero(segments % n_relations != citation), citing[kept]])
    order = order[np.argsort(segments[order], kind="stable")]
    return NeighborLists(np.searchsorted(segments[order], np.arange(len(edges.offsets))), edges.rows[order])


def _shown_names(
    kb: KnowledgeBase, graph: Graph, neighbors: NDArray[np.integer]
) -> tuple[pa.Array, NDArray[np.int64], NDArray[np.bool_]]:
    """Return how neighbors are shown, the place of each one among these, and whether it is shown at all.

    Papers stand in quotes (one without title is "nan", as upstream), authors before their institutions; what has no
    name is left out.
    """
    used, places = np.unique(neighbors, return_inverse=True)
    names = kb.nodes["name"].chunk(0).take(pa.array(used))
    types = graph.type_ids[used]
    unnamed = pc.equal(names, "").to_numpy(zero_copy_only=False)
    is_paper, is_author = types == graph.type_id("paper"), types == graph.type_id("author")
    titles = surrounded('"', pc.if_else(pa.array(unnamed), "nan", names), '"')
    shown = pc.if_else(pa.array(is_paper), titles, names)
    if is_author.any():
        authors = np.flatnonzero(is_author)
        with_institutions = _affiliated(kb, graph, used[authors].astype(np.int64), names.take(pa.array(authors)))
        shown = pc.replace_with_mask(shown, pa.array(is_author), with_institutions)
    return shown, places, ~(unnamed & ~is_paper)[places]


def _affiliated(kb: KnowledgeBase, graph: Graph, authors: NDArray[np.int64], names: pa.Array) -> pa.Array:
    """Return `Name (Institution, Institution)` for each author, or the name alone."""
    edges = edges_of(graph.out, authors, np.array([graph.relation_id(_AFFILIATION)]))
    used, places = np.unique(edges.rows, return_inverse=True)
    institutions = kb.nodes["name"].chunk(0).take(pa.array(used))
    named = pc.not_equal(institutions, "").to_numpy(zero_copy_only=False)
    edges = NeighborLists(edges.offsets, places).keep(named[places])
    pool = PiecePool()
    inner, last = (pool.add(surrounded("", institutions, after)) for after in (", ", ")"))
    alone, before = (pool.add(surrounded("", names, after)) for after in ("", " ("))
    pieces, some = edges.rows.astype(np.int64) + inner, np.diff(edges.offsets) > 0
    pieces[edges.offsets[1:][some] - 1] += last - inner
    return Layout(pieces, edges.offsets).begin(np.where(some, before, alone) + np.arange(len(authors))).texts(pool)


RENDERING = Rendering(_body, _relations, compact_text)
