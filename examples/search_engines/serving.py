"""A server of `search:URL` over a table that `kbbench export NAME --into ENGINE:PLACE --model dense:MODEL` loaded.

PLACE is that of the export without the engine, TABLE the name that it prints, MODEL the embedding model. A function of
an engine gets a query and its vector, and returns ids and scores, best first: change it into a search of your own.
"""

import argparse
import json
import signal
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np

from kbbench_hf.retrieval.embedders import SentenceEmbedder

Search = Callable[[str, np.ndarray, int], list[tuple[str, float]]]
"""(query, its vector, number of results) -> ids and scores."""


def serve(open_table: Callable[[str, str, bool], tuple[str, Search]], usage: str) -> None:
    """Serve the search that `open_table` returns, with the name of the engine for the record of a run."""
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("place", "table", "model"):
        parser.add_argument(name)
    parser.add_argument("--approximate", action="store_true", help="use an approximate index")
    parser.add_argument("--port", type=int, default=9000)
    options = parser.parse_args()
    engine, search = open_table(options.place, options.table, options.approximate)
    embedder = SentenceEmbedder(options.model)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            pairs = zip(request["queries"], embedder.encode_queries(request["queries"]), strict=True)
            found = [search(query, vector, request["top_k"]) for query, vector in pairs]
            results = [[{"id": name, "score": float(score)} for name, score in each] for each in found]
            body = json.dumps({"results": results, "engine": engine}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Print no line for each request."""

    with HTTPServer(("127.0.0.1", options.port), Handler) as server:
        print(f"{engine}\nsearch:http://127.0.0.1:{server.server_port}/", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a killed process would leave Postgres running
        with suppress(KeyboardInterrupt):
            server.serve_forever()
