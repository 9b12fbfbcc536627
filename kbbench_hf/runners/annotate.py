"""Annotations of triples by embedders and topic models, stored as files; `judge` makes the verdicts.

Interrupted annotations resume. A stored annotation is identified by its embedder, thresholds and corpus.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pyarrow as pa

from kbbench_hf.benchmarks.annotated import AnnotationRules, TopicCorpus
from kbbench_hf.benchmarks.annotations import read_annotation, triples_digest, write_annotation
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.errors import DataError
from kbbench_hf.judges.thresholds import CALIBRATED, Thresholds, public_name
from kbbench_hf.judges.topic_model import SEEDS, LdaSettings, TopicModel, corpus_hash
from kbbench_hf.metrics.generative_re import MODES, TOPIC_MODES, WORDS, content_words, join_triples, select_triples
from kbbench_hf.protocols import Embedder, ProcessGroup
from kbbench_hf.retrieval.embedders import embed, folder_of
from kbbench_hf.runners.progress import progress


def annotate_embeddings(
    rules: AnnotationRules,
    examples: Examples,
    answers: Sequence[Answer | None],
    folder: Path,
    embedder: Embedder,
    thresholds: Thresholds,
    *,
    show: bool = True,
) -> int:
    """Write the vectors of every element of gold and predicted triples; return how many were encoded now."""
    elements = sorted({*_elements(rules, examples, answers)})
    identity = {
        "embedder": public_name(embedder.name),
        "uniqueness_threshold": thresholds.uniqueness,
        "completeness_threshold": thresholds.completeness,
        "threshold_basis": thresholds.basis,
        **({"threshold_corpus": thresholds.corpus} if thresholds.corpus else {}),
    }
    known = read_annotation(folder, "embeddings", identity)
    kept = {} if known is None else {element: row for row, element in enumerate(known.table["element"].to_pylist())}
    new = [element for element in elements if element not in kept]
    if known is not None and not new:
        return 0
    texts_sha256 = sha256(json.dumps(new).encode("ascii")).hexdigest()
    work = folder_of(folder / "work", embedder=embedder.name, texts=texts_sha256)
    vectors = np.asarray(
        embed(lambda: new, embedder, work, ProcessGroup(), lambda *a, **k: progress(*a, **k, show=show))
    )
    rows: dict[str, Any] = dict(zip(new, vectors, strict=True))
    if known is not None:
        stored = known.table["vector"].combine_chunks().flatten().to_numpy().reshape(len(kept), -1)
        rows.update({element: stored[kept[element]] for element in elements if element in kept})
    matrix = np.stack([rows[element] for element in elements]) if elements else np.zeros((0, 1), np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
    table = pa.table({"element": pa.array(elements, pa.string()), "vector": column})
    write_annotation(folder, "embeddings", identity, table)
    rmtree(work)
    return len(new)


def annotate_stored_cosines(examples: Examples, folder: Path, file: Path) -> int:
    """Write the cosines that a release stored for one system (`{text: {gold triple: [cosine, ...]}}`).

    They are text-embedding-ada-002's, and all that completeness needs. Return how many documents they cover. CDR's
    belong to an older gold than the release's last.

    Raises:
        DataError: the file is of another form.
    """
    rows: dict[str, list[Any]] = {"id": [], "triple": [], "best": []}
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        for row in examples.rows:
            for triple, cosines in stored.get(row["text"], {}).items():
                rows["id"].append(row["id"])
                rows["triple"].append(triple)
                rows["best"].append(max(cosines, default=-1.0))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DataError(
            f"{file} holds no cosines ({error}); expected a file of GREScores/completeness/details."
        ) from None
    embedder = "text-embedding-ada-002"
    identity = {"embedder": embedder, "completeness_threshold": CALIBRATED[embedder].completeness, "stored": True}
    schema = pa.schema({"id": pa.string(), "triple": pa.string(), "best": pa.float64()})
    write_annotation(folder, "cosines", identity, pa.table(rows, schema))
    return len(set(rows["id"]))


def annotate_topics(
    examples: Examples,
    answers: Sequence[Answer | None],
    folder: Path,
    corpus: TopicCorpus,
    n_topics: int,
    models: Path,
    *,
    seeds: Sequence[int] = SEEDS,
    modes: Iterable[str] = tuple(dict.fromkeys(TOPIC_MODES.values())),
    show: bool = True,
) -> None:
    """Write the topic shares of source texts and predicted triples, for each mode with its own topic models.

    A model is trained on `corpus` for each seed. It is kept in `models` with the shares of the source texts, for the
    next set of predictions.
    """
    corpus_sha256 = corpus_hash(corpus.texts)
    wanted = list(modes)
    with progress("Computing topics", len(wanted) * len(seeds), show=show) as advance:
        for mode in wanted:
            predicted = [select_triples(answer or [], mode) for answer in answers]
            words = [content_words(join_triples(each, mode), mode) for each in predicted]
            identities, source, triples = [], [], []
            for seed in seeds:
                settings = LdaSettings(n_topics, mode, seed)
                place = folder_of(models, settings=repr(settings), words=WORDS[mode], corpus=corpus_sha256)
                model = _topic_model(place / "model.npz", corpus.texts, settings)
                identities.append(model.identity)
                source.append(_source_shares(place, model, examples))
                triples.append(model.shares(words))
                advance()
            table = pa.table(
                {
                    "id": examples.ids,
                    "triples_sha256": [triples_digest(each) for each in predicted],
                    "source": _lists(np.concatenate(source, axis=1)),
                    "triples": _lists(np.concatenate(triples, axis=1)),
                }
            )
            write_annotation(folder, f"topics-{mode}", _identity(identities, corpus), table)


def _identity(of_models: Sequence[Mapping[str, Any]], corpus: TopicCorpus) -> dict[str, Any]:
    """Return what topics depend on: what the models share, then the seed and the hash of each, and their corpus."""
    shared = {name: value for name, value in of_models[0].items() if name not in ("seed", "model_sha256")}
    return {
        **shared,
        "seeds": [each["seed"] for each in of_models],
        "models_sha256": [each["model_sha256"] for each in of_models],
        "corpus": corpus.name,
        **({"instead_of": corpus.instead_of} if corpus.instead_of else {}),
    }


def _topic_model(file: Path, corpus: Sequence[str], settings: LdaSettings) -> TopicModel:
    if file.is_file():
        return TopicModel.load(file)
    model = TopicModel.train(corpus, settings)
    model.save(file)
    return model


def _source_shares(place: Path, model: TopicModel, examples: Examples) -> Any:
    """Return the topic shares of the source texts, kept beside the model: they are the same for every system."""
    identity = {**model.identity, "documents_sha256": sha256("".join(examples.ids).encode("utf-8")).hexdigest()}
    kept = read_annotation(place, "sources", identity)
    if kept is not None:
        return np.array(kept.table["source"].to_pylist())
    shares = model.shares([content_words(row["text"], model.settings.mode) for row in examples.rows])
    write_annotation(place, "sources", identity, pa.table({"source": _lists(shares)}))
    return shares


def _elements(rules: AnnotationRules, examples: Examples, answers: Sequence[Answer | None]) -> Iterator[str]:
    for row, answer in zip(examples.rows, answers, strict=True):
        for mode in MODES:
            for triple in (*rules.gold(row, mode), *select_triples(answer or [], mode)):
                if not isinstance(triple, str) and len(triple) == 3:
                    yield from (element for element in triple if isinstance(element, str))


def _lists(matrix: Any) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(matrix).ravel()), matrix.shape[1])
