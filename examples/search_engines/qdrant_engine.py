"""Qdrant behind `search:URL`: exact search, or the HNSW index of a server with --approximate.

    python examples/search_engines/qdrant_engine.py PLACE TABLE MODEL [--approximate] [--port 9000]

PLACE is the URL of a server, or a folder, where search is always exact. `serving.py` describes the rest. It needs the
package qdrant-client.
"""

from importlib.metadata import version

import numpy as np
from qdrant_client import QdrantClient, models
from serving import Search, serve


def open_table(place: str, table: str, approximate: bool) -> tuple[str, Search]:
    """Return the name of the engine, and its search."""
    client = QdrantClient(url=place) if "://" in place else QdrantClient(path=place)
    exact = "://" not in place or not approximate

    def search(query: str, vector: np.ndarray, top_k: int) -> list[tuple[str, float]]:
        how = models.SearchParams(exact=exact)
        points = client.query_points(
            table, query=vector.tolist(), limit=top_k, search_params=how, with_payload=["id"]
        ).points
        return [(each.payload["id"], each.score) for each in points]

    return f"qdrant-client {version('qdrant-client')}, {'exact' if exact else 'hnsw'}", search


if __name__ == "__main__":
    serve(open_table, __doc__)
