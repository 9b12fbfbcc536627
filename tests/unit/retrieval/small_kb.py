"""A knowledge base of nine nodes, nothing like STaRK's: workshops, ores and metals without a word of text."""

import pyarrow as pa

from kbbench_hf.knowledge_base.store import KnowledgeBase

NODES = [
    (0, "workshop", "Hollow Forge", "A place where bars are smelted and hammered all winter."),
    (1, "workshop", "Salt Kiln", "Bricks are baked here, and bars are cooled in brine."),
    (2, "workshop", "River Mill", "Grinds ochre for painters."),
    (3, "raw_ore", "Magnetite", ""),
    (4, "raw_ore", "Galena", ""),
    (5, "raw_ore", "Bauxite", ""),
    (6, "metal", "Iron", ""),
    (7, "metal", "Lead", ""),
    (8, "metal", "Silver", ""),
]
EDGES = [
    (0, "smelts", 3),
    (0, "stores", 4),
    (1, "smelts", 4),
    (2, "stores", 5),
    (3, "yields", 6),
    (4, "yields", 7),
    (4, "yields", 8),
]


def small_kb() -> KnowledgeBase:
    columns = zip(("id", "type", "name", "text"), zip(*NODES, strict=True), strict=True)
    edges = zip(("head", "relation", "tail"), zip(*EDGES, strict=True), strict=True)
    return KnowledgeBase.from_arrow(
        pa.table({name: list(values) for name, values in columns}),
        pa.table({name: list(values) for name, values in edges}),
    )
