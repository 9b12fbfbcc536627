"""Chroma behind `search:URL`; its index is always HNSW.

    python examples/search_engines/chroma_engine.py PLACE DATASET MODEL [--port 9000]

PLACE is the URL of a server (`chroma run`), or a folder. `serving.py` describes the rest. It needs the package
chromadb.
"""

from collections.abc import Sequence
from importlib.metadata import version
from urllib.parse import urlsplit

import chromadb
import numpy as np
from serving import Hits, serve


class Chroma:
    """A collection of Chroma, whose index is always HNSW."""

    def __init__(self, place: str, table: str, size: int, approximate: bool) -> None:
        url = urlsplit(place)
        client = chromadb.HttpClient(url.hostname, url.port or 8000) if url.scheme else chromadb.PersistentClient(place)
        self.rows = client.get_or_create_collection(
            table, configuration={"hnsw": {"space": "ip"}}, embedding_function=None
        )
        self.name = f"chroma {version('chromadb')}, hnsw"

    def ids(self) -> set[str]:
        return {*self.rows.get(include=[])["ids"]}

    def add(self, ids: Sequence[str], texts: Sequence[str], vectors: np.ndarray) -> None:
        self.rows.upsert(ids=list(ids), documents=list(texts), embeddings=vectors)

    def finish(self) -> None:
        pass

    def search(self, vector: np.ndarray, top_k: int) -> Hits:
        found = self.rows.query(query_embeddings=[vector], n_results=top_k, include=["distances"])
        return [(name, 1 - distance) for name, distance in zip(found["ids"][0], found["distances"][0], strict=True)]


if __name__ == "__main__":
    serve(Chroma, __doc__)
