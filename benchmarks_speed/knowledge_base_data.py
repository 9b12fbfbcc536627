"""Synthetic knowledge bases of the sizes of Prime and MAG, with skewed degrees. Seeded; no real data."""

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbbench_hf.building.stark import release as stark_release

PRIME_TYPES = stark_release.PRIME.archive.nodes_by_type
PRIME_RELATIONS = list(stark_release.PRIME.archive.relations)
PRIME_PAIRS = [
    ("ppi", "gene/protein", "gene/protein", 642_150),
    ("carrier", "drug", "gene/protein", 1_728),
    ("enzyme", "drug", "gene/protein", 10_634),
    ("target", "drug", "gene/protein", 32_760),
    ("transporter", "drug", "gene/protein", 6_184),
    ("contraindication", "drug", "disease", 61_350),
    ("indication", "drug", "disease", 18_776),
    ("off-label use", "drug", "disease", 5_136),
    ("synergistic interaction", "drug", "drug", 2_672_628),
    ("associated with", "disease", "gene/protein", 160_822),
    ("associated with", "effect/phenotype", "gene/protein", 6_660),
    ("parent-child", "biological_process", "biological_process", 105_772),
    ("parent-child", "disease", "disease", 64_388),
    ("parent-child", "anatomy", "anatomy", 28_064),
    ("parent-child", "effect/phenotype", "effect/phenotype", 37_472),
    ("parent-child", "molecular_function", "molecular_function", 27_148),
    ("parent-child", "pathway", "pathway", 5_070),
    ("phenotype absent", "disease", "effect/phenotype", 2_386),
    ("phenotype present", "disease", "effect/phenotype", 300_634),
    ("side effect", "drug", "effect/phenotype", 129_568),
    ("interacts with", "biological_process", "gene/protein", 289_610),
    ("interacts with", "cellular_component", "gene/protein", 166_804),
    ("interacts with", "molecular_function", "gene/protein", 139_060),
    ("interacts with", "pathway", "gene/protein", 85_292),
    ("interacts with", "exposure", "gene/protein", 2_424),
    ("interacts with", "exposure", "biological_process", 3_250),
    ("linked to", "exposure", "disease", 4_608),
    ("expression present", "anatomy", "gene/protein", 3_036_406),
    ("expression absent", "anatomy", "gene/protein", 39_774),
]
MAG_TYPES = {"author": 1_104_554, "institution": 6_923, "field_of_study": 61_247, "paper": 700_244}
MAG_RELATIONS = [
    "author___affiliated_with___institution",
    "paper___cites___paper",
    "paper___has_topic___field_of_study",
    "author___writes___paper",
]
MAG_PAIRS = [
    ("author___affiliated_with___institution", "author", "institution", 2 * 1_000_000),
    ("paper___cites___paper", "paper", "paper", 2 * 9_700_000),
    ("paper___has_topic___field_of_study", "paper", "field_of_study", 2 * 6_600_000),
    ("author___writes___paper", "author", "paper", 2 * 2_600_000),
]
AMAZON_TYPES = {"product": 957_192, "brand": 75_233, "category": 1_422, "color": 1_695}
AMAZON_RELATIONS = ["also_buy", "also_view", "has_brand", "has_category", "has_color"]
AMAZON_PAIRS = [
    ("also_buy", "product", "product", 2_800_000),
    ("also_view", "product", "product", 1_900_000),
    ("has_brand", "product", "brand", 2 * 850_000),
    ("has_category", "product", "category", 2 * 1_150_000),
    ("has_color", "product", "color", 2 * 300_000),
]


@dataclass(frozen=True)
class Synthetic:
    """The arrays of a knowledge base: both directions of every edge stand in the edges."""

    node_types: list[str]
    relations: list[str]
    type_ids: NDArray[np.uint8]
    heads: NDArray[np.int32]
    relation_ids: NDArray[np.uint8]
    tails: NDArray[np.int32]

    def tables(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Return nodes (with records as Prime has them), edges and schema."""
        rng = np.random.default_rng(1)
        words = np.array([f"w{i:x}" for i in range(20_000)])
        n = len(self.type_ids)
        types = [self.node_types[number] for number in self.type_ids.tolist()]
        drawn = words[(20_000 * rng.random(n * 4) ** 2).astype(int)].reshape(n, 4)
        names = [" ".join(row) for row in drawn[:, :3].tolist()]
        prose = [" ".join(words[(20_000 * rng.random(60) ** 2).astype(int)].tolist()) for _ in range(997)]
        details = []
        for i in range(n):
            record: dict[str, object] = {"source": "NCBI"}
            if i % 10 < 6:
                record["details"] = {
                    "name": names[i], "alias": drawn[i].tolist(), "summary": prose[i % 997], "mondo_id": i,
                    "definition": prose[(7 * i) % 997], "type_of_gene": "protein-coding", "_score": 1.5,
                }  # fmt: skip
            details.append(json.dumps(record))
        text = pa.large_string()
        nodes = pa.table(
            {
                "id": np.arange(n),
                "type": types,
                "name": pa.array(names, text),
                "text": pa.array([""] * n, text),
                "details": pa.array(details, text),
            }
        )
        relation = pa.DictionaryArray.from_arrays(self.relation_ids.astype(np.int32), self.relations)
        edges = pa.table(
            {"head": self.heads.astype(np.int64), "relation": relation, "tail": self.tails.astype(np.int64)}
        )
        listed = [("node_type", i, name) for i, name in enumerate(self.node_types)]
        listed += [("relation", i, name) for i, name in enumerate(self.relations)]
        schema = pa.Table.from_pylist([{"kind": kind, "id": i, "name": name} for kind, i, name in listed])
        return nodes, edges, schema


def prime(scale: float = 1.0) -> Synthetic:
    """Return 129,375 nodes and 8.1 M directed edges in blocks of types, as Prime has them, times `scale`.

    Genes of one phenotype interact more often than by chance, as they do in life; without that, no gene has a partner
    that shares a phenotype with it.
    """
    return _made(PRIME_TYPES, PRIME_RELATIONS, PRIME_PAIRS, scale, ("ppi", "effect/phenotype"))


def mag(scale: float = 1.0) -> Synthetic:
    """Return 1.87 M nodes and 39.8 M directed edges, times `scale`."""
    return _made(MAG_TYPES, MAG_RELATIONS, MAG_PAIRS, scale)


def amazon(scale: float = 1.0) -> Synthetic:
    """Return 1.04 M nodes and 9.4 M directed edges, times `scale`."""
    return _made(AMAZON_TYPES, AMAZON_RELATIONS, AMAZON_PAIRS, scale)


def _made(
    types: dict[str, int],
    relations: list[str],
    pairs: list[tuple[str, str, str, int]],
    scale: float,
    meeting: tuple[str, str] | None = None,
) -> Synthetic:
    """`meeting`: a relation, and a type that some of its pairs have a neighbour of in common."""
    rng = np.random.default_rng(0)
    sizes = {name: max(int(size * scale), 20) for name, size in types.items()}
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()])[:-1].tolist(), strict=True))
    n = sum(sizes.values())
    keys = []
    for relation, left, right, count in pairs:
        wanted = min(int(count * scale) // 2, sizes[left] * sizes[right] // 4)
        # A power of a uniform number gives a few hubs and a long tail; a third more, because repeats are dropped.
        ends = [starts[t] + (sizes[t] * rng.random(wanted * 4 // 3) ** 1.6).astype(np.int64) for t in (left, right)]
        different = ends[0] != ends[1]
        codes = np.unique(np.minimum(*ends)[different] * n + np.maximum(*ends)[different])
        codes = rng.permutation(codes)[:wanted]
        keys.append((relations.index(relation), codes // n, codes % n))
    if meeting is not None:
        relation, shared = meeting
        place = next(i for i, pair in enumerate(pairs) if pair[0] == relation)
        through = next(i for i, pair in enumerate(pairs) if {pairs[place][1], shared} == {*pair[1:3]})
        lower, upper = keys[through][1:]
        middle, ends = (lower, upper) if starts[shared] < starts[pairs[place][1]] else (upper, lower)
        order = np.lexsort((ends, middle))
        middle, ends = middle[order], ends[order]
        same = middle[1:] == middle[:-1]
        one, other = ends[:-1][same], ends[1:][same]
        number, heads, tails = keys[place]
        codes = np.unique(np.concatenate([one * n + other, (heads * n + tails)[len(one) :]]))
        keys[place] = (number, codes // n, codes % n)
    relation_ids = np.concatenate([np.full(len(head), number) for number, head, _ in keys])
    heads, tails = (np.concatenate([key[i] for key in keys]) for i in (1, 2))
    order = rng.permutation(2 * len(heads))
    return Synthetic(
        list(sizes),
        relations,
        np.repeat(np.arange(len(sizes)), list(sizes.values())).astype(np.uint8),
        np.concatenate([heads, tails]).astype(np.int32)[order],
        np.concatenate([relation_ids, relation_ids]).astype(np.uint8)[order],
        np.concatenate([tails, heads]).astype(np.int32)[order],
    )
