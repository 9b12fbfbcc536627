"""Annotation files: embeddings, verdicts and topics of predicted triples, so that scoring needs no model.

An annotation is a Parquet file `<kind>.parquet`. Its schema has its identity: everything besides the triples that its
values depend on (embedder, thresholds, judge, prompt, topic model). Reading with another identity gives nothing.

Judges and runners write these files, scoring reads them. Stored annotations are expensive: columns, the keys of triples
and the digest of a document's triples must stay readable.

| kind | row | columns |
|---|---|---|
| `embeddings` | element | `element`, `vector` |
| `cosines` | document, gold triple | `id`, `triple`, `best`: the highest cosine with a predicted triple |
| `factualness` | document, triple, occurrence | `id`, `triple`, `occurrence`, `value`, `status`, `raw` |
| `granularity` | document, triple | `id`, `triple`, `value`, `status`, `raw` |
| `topics-reference`, `topics-fixed` | document | `id`, `triples_sha256`, `source`, `triples`: shares by model, topic |
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.files.writing import whole_file
from kbbench_hf.metrics.generative_re import Triple

if TYPE_CHECKING:
    import pyarrow as pa

Form = Literal["text", "number", "vector"]
_VERDICT: dict[str, Form] = {"value": "number", "status": "text", "raw": "text"}
_SHARES: dict[str, Form] = {"id": "text", "triples_sha256": "text", "source": "vector", "triples": "vector"}
COLUMNS: Mapping[str, Mapping[str, Form]] = {
    "topics-reference": _SHARES,
    "topics-fixed": _SHARES,
    "embeddings": {"element": "text", "vector": "vector"},
    "cosines": {"id": "text", "triple": "text", "best": "number"},
    "factualness": {"id": "text", "triple": "text", "occurrence": "number", **_VERDICT},
    "granularity": {"id": "text", "triple": "text", **_VERDICT},
}
"""Kind -> its columns and what they hold; a vector has one length in all rows."""
KINDS = tuple(COLUMNS)
Identity = Mapping[str, Any]
METADATA_KEY = b"kbbench"
"""Under which a file's schema says what it was made with."""
_Float = TypeVar("_Float", bound=np.floating)


class Annotation(NamedTuple):
    """One annotation: what it was made with, and its rows."""

    identity: Identity
    table: "pa.Table"


def write_annotation(folder: Path, kind: str, identity: Identity, table: "pa.Table") -> None:
    """Write an annotation, whole or not at all; it replaces an earlier one of its kind."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    metadata = {METADATA_KEY: json.dumps({**identity, "kind": kind}, sort_keys=True)}
    with whole_file(folder / f"{kind}.parquet") as sink:
        pq.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd")


def read_annotation(folder: Path, kind: str, identity: Identity | None = None) -> Annotation | None:
    """Return an annotation; None where there is none, or where it has another identity than a given one."""
    file = folder / f"{kind}.parquet"
    if not file.is_file():
        return None
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file, memory_map=True).read()
    found = json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if found.get("kind") != kind:
        return None
    if identity is not None and found != json.loads(json.dumps({**identity, "kind": kind})):
        return None
    return Annotation(found, table)


def triple_key(triple: Triple) -> str:
    """Return a triple as the JSON text that annotations know it by.

    >>> triple_key(("a", "r", "ß"))
    '["a", "r", "ß"]'
    """
    return json.dumps(triple, ensure_ascii=False)


def triple_keys(triples: Sequence[Triple], *, once: bool) -> list[str]:
    """Return the keys of a document's triples, in order; with `once` those of the distinct ones."""
    keys = [triple_key(triple) for triple in triples]
    return list(dict.fromkeys(keys)) if once else keys


def triples_digest(triples: Sequence[Triple]) -> str:
    """Return the hash of a document's triples, by which topics know whether they were made of these."""
    return sha256(triple_key([list(t) if isinstance(t, tuple) else t for t in triples]).encode("utf-8")).hexdigest()


class Annotations:
    """All annotations of one set of predictions, looked up by document and triple.

    Raises:
        UsageError: the folder holds no annotation.
    """

    def __init__(self, folder: Path) -> None:
        self._found = {kind: found for kind in KINDS if (found := read_annotation(folder, kind)) is not None}
        if not self._found:
            raise UsageError(
                f"{folder} holds no annotation; expected some of {', '.join(KINDS)}. Run kbbench annotate."
            )

    def identities(self) -> dict[str, Identity]:
        """Return what each kind was made with. Scores made with different identities must not be compared."""
        return {kind: annotation.identity for kind, annotation in self._found.items()}

    def has(self, kind: str) -> bool:
        """Return whether there is an annotation of this kind."""
        return kind in self._found

    def threshold(self, kind: str, metric: str) -> float:
        """Return the cosine that `uniqueness` or `completeness` compares with, which belongs to the embedder."""
        return float(self._found[kind].identity[f"{metric}_threshold"])

    def topics(
        self, mode: str, ids: Sequence[str], answers: Sequence[Sequence[Triple]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return topic shares of sources and triples, both of shape (topic models, documents, topics).

        NaN where a document's were made of other triples.
        """
        identity, table = self._found[f"topics-{mode}"]
        n_models = len(identity.get("seeds", [""]))  # annotations made before there were several have one
        source, triples = (_matrix(table[name], np.float64) for name in ("source", "triples"))
        rows = {key: row for row, key in enumerate(zip(*_lists(table, "id", "triples_sha256"), strict=True))}
        places = [rows.get((key, triples_digest(answer)), -1) for key, answer in zip(ids, answers, strict=True)]
        known = (np.array(places, dtype=np.int64) >= 0)[:, None, None]
        if not len(source):
            empty = np.full((n_models, len(ids), 1), math.nan)
            return empty, empty
        by_document = (shares.reshape(len(shares), n_models, -1)[places] for shares in (source, triples))
        of_source, of_triples = (np.where(known, each, math.nan).swapaxes(0, 1) for each in by_document)
        return of_source, of_triples

    def places(self, triples: Sequence[Triple]) -> NDArray[np.int64] | None:
        """Return where the vectors of a document's triples are: row numbers of `elements`, shape (triples, 3).

        Triples with an element that is no string are left out, as nobody can embed them; None where a string has no
        vector: it was not in these predictions when they were annotated.
        """
        index, _ = self._embeddings
        try:
            rows = [[index[element] for element in triple] for triple in triples if _is_embeddable(triple)]
        except KeyError:
            return None
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    @property
    def elements(self) -> NDArray[np.float32]:
        """The vectors of all elements, shape (elements, dimension)."""
        return self._embeddings[1]

    def sums(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vector of each triple, the sum of its elements', shape (triples, dimension)."""
        total: NDArray[np.float32] = self.elements[places[:, 0]]
        total += self.elements[places[:, 1]]
        total += self.elements[places[:, 2]]
        return total

    def best_cosines(self, document: str) -> NDArray[np.float64] | None:
        """Return the best cosine of each gold triple compared, shape (gold triples, 1); None where none was."""
        best = self._cosines.get(document)
        return None if best is None else np.array(best)[:, None]

    def verdicts(self, document: str, triples: Sequence[Triple]) -> list[float | None] | None:
        """Return the verdict on each triple, None for a failed one; None for all where one was never judged."""
        met: dict[str, int] = {}
        verdicts = []
        for triple in triples:
            key = triple_key(triple)
            occurrence = met[key] = met.get(key, -1) + 1
            places = [place for place in ((document, key, occurrence), (document, key, 0)) if place in self._facts]
            if not places:
                return None
            verdicts.append(self._facts[places[0]])
        return verdicts

    def splits(self, document: str, triples: Sequence[Triple]) -> list[int | None] | None:
        """Return the sub-triples of each distinct triple, None for a failed one; None for all where one is missing."""
        counts = []
        for key in dict.fromkeys(map(triple_key, triples)):
            if (document, key) not in self._splits:
                return None
            value = self._splits[document, key]
            counts.append(None if value is None else int(value))
        return counts

    def unread(self, kind: str) -> dict[str, int]:
        """Return why items have no verdict (`cut off`, `parse error`, ...), and how many: most frequent first."""
        if kind not in self._found:
            return {}
        values, statuses = _lists(self._found[kind].table, "value", "status")
        pairs = zip(values, statuses, strict=True)
        return dict(Counter(status for value, status in pairs if value is None).most_common())

    def values(self, kind: str) -> list[float]:
        """Return all verdicts of a kind, in the order of the file."""
        return self._found[kind].table["value"].drop_null().to_pylist() if kind in self._found else []

    def failures(self, kind: str) -> int:
        """Return how many items a judge gave no verdict on."""
        return self._found[kind].table["value"].null_count if kind in self._found else 0

    @cached_property
    def _embeddings(self) -> tuple[dict[str, int], NDArray[np.float32]]:
        table = self._found["embeddings"].table
        index = {element: row for row, element in enumerate(table["element"].to_pylist())}
        return index, _matrix(table["vector"], np.float32)

    @cached_property
    def _cosines(self) -> dict[str, list[float]]:
        cosines: dict[str, list[float]] = {}
        for document, best in zip(*_lists(self._found["cosines"].table, "id", "best"), strict=True):
            cosines.setdefault(document, []).append(best)
        return cosines

    @cached_property
    def _facts(self) -> dict[tuple[str, str, int], float | None]:
        ids, triples, occurrences, values = _lists(
            self._found["factualness"].table, "id", "triple", "occurrence", "value"
        )
        return dict(zip(zip(ids, triples, occurrences, strict=True), values, strict=True))

    @cached_property
    def _splits(self) -> dict[tuple[str, str], float | None]:
        ids, triples, values = _lists(self._found["granularity"].table, "id", "triple", "value")
        return dict(zip(zip(ids, triples, strict=True), values, strict=True))


def _is_embeddable(triple: Triple) -> TypeGuard[Sequence[str]]:
    return not isinstance(triple, str) and len(triple) == 3 and all(isinstance(element, str) for element in triple)


def _matrix(column: "pa.ChunkedArray", dtype: type[_Float]) -> NDArray[_Float]:
    """Return a column of equally long lists as a matrix, without a copy where Arrow allows it."""
    if not len(column):
        return np.zeros((0, 0), dtype=dtype)
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    matrix: NDArray[_Float] = flat.astype(dtype, copy=False).reshape(len(column), -1)
    return matrix


def _lists(table: "pa.Table", *names: str) -> list[list[Any]]:
    """Return columns of a table as lists."""
    return [table[name].to_pylist() for name in names]
