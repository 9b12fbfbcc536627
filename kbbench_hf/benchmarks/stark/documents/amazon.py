"""STaRK-Amazon's official documents.

Format: `stark_qa/skb/amazon.py` of snap-stanford/stark (MIT, (c) 2024 Shirley Wu), reproduced because published scores
depend on it. Dimensions and weight are written as since the end of 2024; the documents behind the published scores
lacked both. Colours and categories of a product are never written, and only its first brand.

Differs from upstream: reviews with equally many votes keep their order, where `np.argsort` left it open; `n_rel` works,
where the relations of a product took none.
"""

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.documents import Layout, Node, PiecePool, Rendering, Sample, compact_text, edges_of
from kbbench_hf.knowledge_base.store import KnowledgeBase

_RELATIONS = ("also_buy", "also_view", "has_brand")
_HEADS = ("  products also purchased: \n", "  products also viewed: \n", "")
_MAX_ENTRIES = 27
"""Upstream stops after the index has passed its maximum of 25, that is with the 27th entry."""


def _body(node: Node) -> str:
    """Return a document without relations: a product's record, or the name of a brand, category or color."""
    if node.type != "product":
        return f"{node.type} name: {node.record[f'{node.type}_name']}"
    record = node.record
    document = f"- product: {record['title']}\n"
    if "brand" in record:
        document += f"- brand: {record['brand']}\n"
    document += _dimensions(record.get("details"))
    if record["description"] and (description := " ".join(record["description"]).strip(" ")):
        document += f"- description: {description}\n"
    return document + _features(record["feature"]) + _reviews(record["review"]) + _questions(record["qa"])


def _dimensions(details: object) -> str:
    measures = details.get("product_dimensions") if isinstance(details, dict) else None
    parts = measures.split(" ; ") if isinstance(measures, str) else []
    return f"- dimensions: {parts[0]}\n- weight: {parts[1]}\n" if len(parts) == 2 else ""


def _features(features: list[str]) -> str:
    if not features:
        return ""
    numbered = enumerate(features, 1)
    return "- features: \n" + "".join(f"#{i}: {one}\n" for i, one in numbered if one and "asin" not in one.lower())


def _reviews(reviews: list[dict[str, object]]) -> str:
    """Return the reviews with the most votes, each with its number in the record, most votes first."""
    if not reviews:
        return ""
    votes = [int(one["vote"].replace(",", "")) if isinstance(one["vote"], str) else 0 for one in reviews]
    best = sorted(range(len(reviews)), key=lambda i: -votes[i])[:_MAX_ENTRIES]
    return "- reviews: \n" + "".join(
        f'#{i + 1}:\nsummary: {reviews[i]["summary"]}\ntext: "{reviews[i]["reviewText"]}"\n' for i in best
    )


def _questions(questions: list[dict[str, object]]) -> str:
    if not questions:
        return ""
    return "- Q&A: \n" + "".join(
        f'#{i}:\nquestion: "{one["question"]}"\nanswer: "{one["answer"]}"\n'
        for i, one in enumerate(questions[:_MAX_ENTRIES], 1)
    )


def _relations(kb: KnowledgeBase, rows: NDArray[np.int64], pool: PiecePool, sample: Sample) -> Layout:
    """Lay out `- relations:`, then the numbered titles bought and viewed with a product, then its brand."""
    graph = kb.official
    n_relations, brand = len(_RELATIONS), _RELATIONS.index("has_brand")
    edges = edges_of(graph.out, rows, np.array([graph.relation_id(name) for name in _RELATIONS]))
    segments = edges.segments()
    numbers = np.arange(len(segments)) - edges.offsets[segments]
    is_product = graph.type_ids[rows] == graph.type_id("product")
    is_shown = (segments % n_relations != brand) | (numbers == 0)  # a product has one brand
    edges = edges.keep(np.repeat(is_product, n_relations)[segments] & is_shown)
    if sample.n > 0:
        edges = edges.sampled(np.repeat(rows, n_relations), sample)
    segments = edges.segments()
    numbers = np.arange(len(segments)) - edges.offsets[segments]
    names = pool.named(kb.nodes["name"].chunk(0), edges.rows, "", "\n")
    ordinals = pool.add([f"#{i + 1}: " for i in range(numbers.max(initial=-1) + 1)]) + numbers
    labels = np.where(segments % n_relations == brand, pool.add(["  brand: "]), ordinals)
    related = np.flatnonzero(np.diff(edges.offsets))
    first = np.diff(related // n_relations, prepend=-1) != 0
    heads = pool.add([start + head for start in ("", "- relations:\n") for head in _HEADS])
    layout = Layout(np.column_stack([labels, names]).ravel(), 2 * edges.offsets)
    layout = layout.begin(heads + first * n_relations + related % n_relations, related)
    return layout.merged(np.arange(len(rows) + 1) * n_relations)


def _compact(document: str) -> str:
    """Return a product's document on one line; those of brands, categories and colours stay as they are."""
    return compact_text(document) if document.startswith("- product: ") else document


RENDERING = Rendering(_body, _relations, _compact)
