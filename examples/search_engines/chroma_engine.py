"""Chroma behind `search:URL`; its index is always HNSW.

    python examples/search_engines/chroma_engine.py PLACE TABLE MODEL [--port 9000]

PLACE is the URL of a server (`chroma run`), or a folder. `serving.py` describes the rest. It needs the package
chromadb.
"""

from importlib.metadata import version
from urllib.parse import urlsplit

import chromadb
import numpy as np
from serving import Search, serve


def open_table(place: str, table: str, approximate: bool) -> tuple[str, Search]:
    """Return the name of the engine, and its search."""
    url = urlsplit(place)
    client = chromadb.HttpClient(url.hostname, url.port or 8000) if url.scheme else chromadb.PersistentClient(place)
    rows = client.get_collection(table, embedding_function=None)

    def search(query: str, vector: np.ndarray, top_k: int) -> list[tuple[str, float]]:
        found = rows.query(query_embeddings=[vector], n_results=top_k, include=["distances"])
        return [(name, 1 - distance) for name, distance in zip(found["ids"][0], found["distances"][0], strict=True)]

    return f"chroma {version('chromadb')}, hnsw", search


if __name__ == "__main__":
    serve(open_table, __doc__)
