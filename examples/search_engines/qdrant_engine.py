"""Qdrant behind `search:URL`: exact search, or the HNSW index of a server with --approximate.

    python examples/search_engines/qdrant_engine.py PLACE DATASET MODEL [--approximate] [--port 9000]

PLACE is the URL of a server, or a folder, where search is always exact. `serving.py` describes the rest. It needs the
package qdrant-client.
"""

from collections.abc import Sequence
from importlib.metadata import version
from uuid import NAMESPACE_URL, uuid5

import numpy as np
from qdrant_client import QdrantClient, models
from serving import Hits, serve


class Qdrant:
    """A collection of Qdrant: exact in a folder and without --approximate, else HNSW."""

    def __init__(self, place: str, table: str, size: int, approximate: bool) -> None:
        self.table, self.exact = table, "://" not in place or not approximate
        self.client = QdrantClient(url=place) if "://" in place else QdrantClient(path=place)
        if not self.client.collection_exists(table):
            self.client.create_collection(table, models.VectorParams(size=size, distance=models.Distance.DOT))
        self.name = f"qdrant-client {version('qdrant-client')}, {'exact' if self.exact else 'hnsw'}"

    def ids(self) -> set[str]:
        n = self.client.count(self.table).count
        return {each.payload["id"] for each in self.client.scroll(self.table, limit=n + 1, with_payload=["id"])[0]}

    def add(self, ids: Sequence[str], texts: Sequence[str], vectors: np.ndarray) -> None:
        points = [  # Qdrant takes numbers and UUIDs as ids
            models.PointStruct(
                id=str(uuid5(NAMESPACE_URL, name)), vector=v.tolist(), payload={"id": name, "text": text}
            )
            for name, text, v in zip(ids, texts, vectors, strict=True)
        ]
        self.client.upsert(self.table, points)

    def finish(self) -> None:
        pass

    def search(self, vector: np.ndarray, top_k: int) -> Hits:
        exact = models.SearchParams(exact=self.exact)
        found = self.client.query_points(
            self.table, query=vector.tolist(), limit=top_k, search_params=exact, with_payload=["id"]
        )
        return [(each.payload["id"], each.score) for each in found.points]


if __name__ == "__main__":
    serve(Qdrant, __doc__)
