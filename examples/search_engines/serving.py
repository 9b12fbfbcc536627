"""Load a knowledge base into a search engine, and serve its search to `kbbench run --model search:URL`.

DATASET is a name as in `kbbench run`, MODEL an embedding model of sentence-transformers. Documents and vectors are
those of `dense:MODEL`. After an interruption, the same command loads what is missing. The name of the engine, which a
run records, has its recall against exact search. For another engine, write a class with the methods of `Engine`.
"""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from kbbench_hf.retrieval.embedders import SentenceEmbedder, embed_nodes, folder_of
from kbbench_hf.retrieval.ir_tools import RetrievalCollection
from kbbench_hf.retrieval.top_k import search
from kbbench_hf.runners.retrieval_run import default_cache

BATCH = 500
"""Documents sent at a time."""
DEPTH = 10
"""How many results the recall is measured on."""
Hits = list[tuple[str, float]]
"""Ids and scores, best first."""


class Engine(Protocol):
    """What the server needs of an engine."""

    name: str
    """The engine with its version and kind of search, for the run's record."""

    def ids(self) -> set[str]:
        """Return the ids that are loaded."""
        ...

    def add(self, ids: Sequence[str], texts: Sequence[str], vectors: np.ndarray) -> None:
        """Load documents."""
        ...

    def finish(self) -> None:
        """Build indexes, after the last document."""
        ...

    def search(self, vector: np.ndarray, top_k: int) -> Hits:
        """Return the documents of greatest inner product."""
        ...


def serve(make_engine: Callable[[str, str, int, bool], Engine], usage: str) -> None:
    """Load what is missing, measure the recall, and serve."""
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("place", "dataset", "model"):
        parser.add_argument(name)
    parser.add_argument("--approximate", action="store_true", help="use an approximate index")
    parser.add_argument("--port", type=int, default=9000)
    asked = parser.parse_args()
    collection, embedder = RetrievalCollection.open(asked.dataset, None, None, None), SentenceEmbedder(asked.model)
    context = replace(collection.context, cache=default_cache())
    vectors = embed_nodes(context, embedder, collection.text)
    # Other documents or another model have another table.
    made_of = {**embedder.settings, "text": str(collection.text), "nodes": context.nodes}
    table = f"kbbench_{folder_of(Path(), **made_of).name}"
    engine = make_engine(asked.place, table, vectors.shape[1], asked.approximate)
    load(engine, collection, vectors)
    recall = measure_recall(engine, vectors, list(collection.places), embedder, list(collection.queries.values()))
    engine.name += f", recall@{DEPTH} of exact search {recall:.4f}"
    with HTTPServer(("127.0.0.1", asked.port), handler(engine, embedder)) as server:
        print(f"{engine.name}\nkbbench run {asked.dataset} --model search:http://127.0.0.1:{server.server_port}/")
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a killed process would leave Postgres running
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def load(engine: Engine, collection: RetrievalCollection, vectors: np.ndarray) -> None:
    """Add the documents that the engine lacks, in batches."""
    there = engine.ids()
    missing = [place for name, place in collection.places.items() if name not in there]
    for start in range(0, len(missing), BATCH):
        places = missing[start : start + BATCH]
        documents = list(collection.documents(places))
        engine.add([each.doc_id for each in documents], [each.text for each in documents], vectors[places])
        print(f"{len(there) + start + len(places):,} of {len(vectors):,} documents loaded", file=sys.stderr)
    engine.finish()


def measure_recall(
    engine: Engine, vectors: np.ndarray, ids: Sequence[str], embedder: SentenceEmbedder, queries: Sequence[str]
) -> float:
    """Return the share of the nearest vectors that the engine finds, over the queries; equal vectors count as found."""
    places = {name: place for place, name in enumerate(ids)}
    of_queries = embedder.encode_queries(queries)
    exact = search(np.asarray(vectors), of_queries, min(DEPTH, len(ids)))
    found = []
    for vector, scores in zip(of_queries, exact.scores, strict=True):
        rows = [places[name] for name, _ in engine.search(vector, len(scores))]
        found.append((vectors[rows] @ vector >= scores[-1] - 1e-6).sum() / len(scores))
    return float(np.mean(found))


def handler(engine: Engine, embedder: SentenceEmbedder) -> type[BaseHTTPRequestHandler]:
    """Return what replies to the requests of `search:URL`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            results = [
                [{"id": name, "score": float(score)} for name, score in engine.search(vector, request["top_k"])]
                for vector in embedder.encode_queries(request["queries"])
            ]
            body = json.dumps({"results": results, "engine": engine.name}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Print no line for each request."""

    return Handler
