"""GenRES's measures against its release's way of computing them: CPU time, interleaved in one run, values compared.

The release's way, re-created as the plain loops that it is: element vectors lie in a dictionary of Python lists of
1,536 numbers; uniqueness turns them into arrays for each document and calls scikit-learn; completeness does so again
for every gold triple; topical similarity tokenises text and triples of each document with NLTK and asks the topic
model for one document at a time. Vectors here are random: only their size matters for the time.

    pip download --no-deps llama-index-core && unzip llama_index_core-*.whl -d unpacked
    python benchmarks_speed/genres.py RELEASE unpacked/llama_index/core/_static/nltk_cache
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nltk
import numpy as np
import pyarrow as pa
from gensim.corpora import Dictionary
from gensim.models import LdaModel
from scipy.stats import entropy
from sklearn.metrics.pairwise import cosine_similarity

from kbbench_hf.benchmarks.annotated import with_annotations
from kbbench_hf.benchmarks.annotations import Annotations, write_annotation
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext, score
from kbbench_hf.judges.topic_model import LdaSettings, TopicModel
from kbbench_hf.metrics.generative_re import (
    STOP_WORDS,
    all_cosines,
    completeness,
    content_words,
    join_triples,
    topical_similarity,
    uniqueness,
)

TARGETS = {"uniqueness": 15, "completeness": 80, "topical similarity": 1.5}
PEAK_MB = 1000
ROUNDS = 3
DIMENSION, THRESHOLD = 1536, 0.05  # random vectors are nearly orthogonal: a threshold near 0 divides them
Documents = list[tuple[list[list[str]], list[list[str]]]]


def read(release: Path, dataset: str, model: str) -> tuple[list[str], Documents]:
    """Return texts, and (predicted, gold) of each."""
    answers = json.loads((release / f"outputs/{dataset}_{model}_1.json").read_text(encoding="utf-8"))
    gold = json.loads((release / f"inputs/{dataset.split('_')[0]}_processed.json").read_text(encoding="utf-8"))
    kept = {
        text: [triple for triple in triples if all(isinstance(element, str) for element in triple)]
        for text, triples in answers.items()
    }
    return list(kept), [(triples, gold[text]) for text, triples in kept.items()]


def embed(documents: Documents) -> tuple[list[str], np.ndarray]:
    """Return every element and a random vector for it."""
    elements = sorted({element for pair in documents for triples in pair for triple in triples for element in triple})
    return elements, np.random.default_rng(0).normal(size=(len(elements), DIMENSION)).astype(np.float32)


def released_vectors(triples: list[list[str]], store: dict[str, list[float]]) -> np.ndarray:
    return np.array([np.array(store[h]) + np.array(store[t]) + np.array(store[r]) for h, r, t in triples])


def released_uniqueness(documents: Documents, store: dict[str, list[float]]) -> list[float]:
    scores = []
    for predicted, _ in documents:
        n = len(predicted)
        if n <= 1:
            scores.append(1.0)
            continue
        cosines = cosine_similarity(released_vectors(predicted, store))
        np.fill_diagonal(cosines, 1)
        scores.append(float((cosines < THRESHOLD).sum()) / (n * (n - 1)))
    return scores


def released_completeness(documents: Documents, store: dict[str, list[float]]) -> list[float]:
    scores = []
    for predicted, gold in documents:
        distinct = {str(triple): triple for triple in gold}
        recalled = 0
        for triple in distinct.values():
            cosines = cosine_similarity(released_vectors([triple], store), released_vectors(predicted, store))
            recalled += cosines.max() >= THRESHOLD
        scores.append(recalled / len(distinct))
    return scores


def released_words(text: str) -> list[str]:
    return [word for word in nltk.word_tokenize(text) if word not in STOP_WORDS and word.isalnum()]


def released_similarity(texts: list[str], documents: Documents, lda: LdaModel, ids: Dictionary) -> list[float]:
    scores = []
    for text, (predicted, _) in zip(texts, documents, strict=True):
        shares = []
        for words in (released_words(text), released_words(join_triples(predicted, "reference"))):
            topics = lda.get_document_topics(ids.doc2bow(words), minimum_probability=0)
            shares.append([share for _, share in topics])
        scores.append(float(np.exp(-entropy(shares[0], shares[1]))))
    return scores


def our_uniqueness(documents: Documents, annotations: Annotations) -> list[float]:
    vectors = (annotations.sums(annotations.places(predicted)) for predicted, _ in documents)
    return uniqueness(vectors, THRESHOLD, empty=1.0).tolist()


def our_completeness(documents: Documents, annotations: Annotations) -> list[float]:
    return completeness(
        (
            all_cosines(*(annotations.sums(annotations.places(triples)) for triples in (gold, predicted)))
            for predicted, gold in ((predicted, list(dict.fromkeys(map(tuple, gold)))) for predicted, gold in documents)
        ),
        THRESHOLD,
    ).tolist()


def our_similarity(documents: Documents, model: TopicModel, source: np.ndarray) -> list[float]:
    words = [content_words(join_triples(predicted, "reference"), "reference") for predicted, _ in documents]
    return topical_similarity(source, model.shares(words)).tolist()


def race(name: str, released: Callable[[], list[float]], ours: Callable[[], list[float]], same: bool) -> None:
    """Time both, alternating; print documents per second and the ratio."""
    seconds: dict[Any, float] = {}
    results = {}
    for _ in range(ROUNDS):
        for run in (released, ours):
            start = time.process_time()
            results[run] = run()
            seconds[run] = min(time.process_time() - start, seconds.get(run, np.inf))
    n = len(results[ours])
    difference = np.abs(np.array(results[released]) - results[ours]).max()
    if same and difference > 1e-12:
        raise SystemExit(f"{name}: the values differ by {difference}")
    print(
        f"{name:20} released {n / seconds[released]:8.0f} documents/s   ours {n / seconds[ours]:8.0f}   "
        f"{seconds[released] / seconds[ours]:6.1f}x (target {TARGETS[name]}x)   largest difference {difference:.3g}"
    )


def write_vectors(folder: Path, elements: list[str], matrix: np.ndarray) -> None:
    column = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), DIMENSION)
    identity = {"embedder": "random", "uniqueness_threshold": THRESHOLD, "completeness_threshold": THRESHOLD}
    write_annotation(folder, "embeddings", identity, pa.table({"element": elements, "vector": column}))


def measure_peak(release: Path, folder: Path) -> None:
    """Score DocRED, the dataset with most triples, in this process, and print its peak memory."""
    texts, documents = read(release, "docred_rand_200", "gpt-4-1106-preview")
    rows = []
    for text, (_, gold) in zip(texts, documents, strict=True):
        triples = [dict(zip(("sub", "rel", "obj"), triple, strict=True)) for triple in gold]
        rows.append({"id": text, "text": text, "triples": triples, "triples_stated": triples})
    examples = with_annotations(Examples(rows, CorpusContext("docred", ())), folder)
    score(examples, [predicted for predicted, _ in documents], "fixed")
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    print(f"{'peak memory':20} {peak:.0f} MB with {DIMENSION}-d vectors on DocRED (target below {PEAK_MB} MB)")


def main(release: Path, nltk_data: Path) -> None:
    nltk.data.path[:] = [str(nltk_data)]
    texts, documents = read(release, "docred_rand_200", "gpt-4")
    elements, matrix = embed(documents)
    store = {element: row.tolist() for element, row in zip(elements, matrix, strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        write_vectors(Path(folder), elements, matrix)
        annotations = Annotations(Path(folder))
        annotations.places([])  # the store is read before the clock starts, on both sides
        race(
            "uniqueness",
            lambda: released_uniqueness(documents, store),
            lambda: our_uniqueness(documents, annotations),
            same=True,
        )
        few = documents[:40]
        race(
            "completeness",
            lambda: released_completeness(few, store),
            lambda: our_completeness(few, annotations),
            same=True,
        )
    store.clear()
    texts, documents = read(release, "cdr_rand_200", "gpt-4")
    model = TopicModel.train(texts, LdaSettings(50, "reference"))
    words = [content_words(text, "reference") for text in texts]
    ids = Dictionary(words)
    lda = LdaModel([ids.doc2bow(each) for each in words], num_topics=50, id2word=ids, random_state=2)
    source = model.shares(words)
    race(
        "topical similarity",
        lambda: released_similarity(texts, documents, lda, ids),
        lambda: our_similarity(documents, model, source),
        same=False,  # the release starts inference at random points
    )
    with tempfile.TemporaryDirectory() as folder:
        _, documents = read(release, "docred_rand_200", "gpt-4-1106-preview")
        write_vectors(Path(folder), *embed(documents))
        subprocess.run([sys.executable, __file__, str(release), "--peak", folder], check=True)


if __name__ == "__main__":
    if sys.argv[2] == "--peak":
        measure_peak(Path(sys.argv[1]), Path(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
