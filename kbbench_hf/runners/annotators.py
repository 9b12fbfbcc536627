"""Annotators (judges, embedders, topic models) by name, and the annotation of one set of predictions.

`kbbench annotate` and `run --annotate` use it. `judge` makes the verdicts; embeddings and topics are made here.
Interrupted annotations resume. A stored annotation has an identity (embedder, thresholds, corpus, seeds): one with
another identity is made again, and results with different identities are not compared. So identities must not change.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pyarrow as pa

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.benchmarks.annotated import AnnotationRules, TopicCorpus
from kbbench_hf.benchmarks.annotations import read_annotation, triples_digest, write_annotation
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import Row
from kbbench_hf.files.shards import ShardEnd
from kbbench_hf.judges.thresholds import CALIBRATED, Thresholds, public_name, thresholds_of
from kbbench_hf.judges.topic_model import SEEDS, LdaSettings, TopicModel, corpus_hash
from kbbench_hf.metrics.generative_re import MODES, TOPIC_MODES, WORDS, content_words, join_triples, select_triples
from kbbench_hf.protocols import Embedder, ProcessGroup
from kbbench_hf.retrieval.embedders import SentenceEmbedder, embed, folder_of
from kbbench_hf.runners.jobs import Sampling
from kbbench_hf.runners.judge import AnyJudge, ChatJudge, annotate_verdicts, judge_by_name
from kbbench_hf.runners.progress import progress
from kbbench_hf.runners.run_options import RunOptions, asking_options, language_model, shard_of
from kbbench_hf.scoring.eval_task import EvalTask

TOPIC_MODELS = Path("kbbench/topic-models")
"""Where topic models are kept, below the working folder."""
CALIBRATIONS = Path("kbbench/judges")
"""Where calibrations of judges are kept, below the working folder."""
JUDGES = ("surface", "nli", "stored", "hf", "llm")
"""How the name of a judge begins; any other name in `parse_annotators` is an embedder's."""


@dataclass(frozen=True)
class Annotators:
    """What makes each kind of annotation; None, or False, where it is not made."""

    fact_judge: str | None = None
    split_judge: str | None = None
    embedder: str | None = None
    thresholds: Path | None = None
    """The embedder's, as its calibration wrote them; the known ones where None."""
    stored_cosines: Path | None = None
    topics: bool = False
    corpus: Path | None = None
    """The topic models' texts, one a line or a JSON list; the dataset's own where None."""
    topic_models: Path = TOPIC_MODELS
    calibrations: Path = CALIBRATIONS
    """Where calibrations of judges are looked for."""
    topic_seeds: Sequence[int] = SEEDS
    judging: RunOptions = field(default_factory=RunOptions)
    """How a language model that judges is reached and asked: `base_url`, `api_key_env`, `structured`, `max_tokens`, ...
    """

    def __bool__(self) -> bool:
        """Whether anything is made at all."""
        return self.topics or any((self.fact_judge, self.split_judge, self.embedder, self.stored_cosines))


def parse_annotators(names: str, **options: Any) -> Annotators:
    """Return the annotators that `JUDGE,EMBEDDER` names: the judge makes both kinds of verdicts; topics are made too.

    A judge's name is `surface` or begins with `nli:`, `stored:`, `hf:` or `llm:`; the other name is the embedder's.
    One of the two may be left out.

    >>> found = parse_annotators("nli:org/judge,org/embedder")
    >>> found.fact_judge, found.split_judge, found.embedder, found.topics
    ('nli:org/judge', 'nli:org/judge', 'org/embedder', True)

    Raises:
        UsageError: two judges, two embedders, or no name.
    """
    given = [name.strip() for name in names.split(",")]
    judges = [name for name in given if name.partition(":")[0] in JUDGES]
    embedders = [name for name in given if name not in judges]
    if not all(given) or len(judges) > 1 or len(embedders) > 1:
        raise UsageError(
            f"{names!r} names no annotators; expected JUDGE,EMBEDDER or one of the two, such as "
            f"surface,sentence-transformers/all-MiniLM-L6-v2. A judge is one of {', '.join(JUDGES)}."
        )
    judge, embedder = next(iter(judges), None), next(iter(embedders), None)
    return Annotators(judge, judge, embedder, topics=True, **options)


def annotate_predictions(
    task: EvalTask, answers: Sequence[Answer | None], folder: Path, annotators: Annotators, *, show: bool = True
) -> Row:
    """Write the annotations of one set of predictions into a folder; return a report, kind -> what was made.

    Of a kind of verdict it has the number of items by status, see `n_failed`. Annotations that are there with the same
    identity are kept; an interrupted judge resumes. `answers` are in the order of the task's examples.

    A shard (`shard` or `collect` in `annotators.judging`) judges its items only; what needs no judge is made when the
    shards are collected. The last shard to end collects them.

    Raises:
        UsageError: the benchmark needs no annotations, or a name that is no judge or no known embedder's.
        ShardEnd: a shard has ended, and others have not.
        IncompleteError: a shard that is to be collected has not ended.
    """
    rules, examples = annotation_rules(task), task.examples
    annotators = _needed_annotators(annotators, rules, task.task_key.benchmark)
    kinds = (("factualness", annotators.fact_judge), ("granularity", annotators.split_judge))
    config = task.task_key.config
    # first of all: a wrong name is an error before anything is computed or sent
    judges = {kind: judge_of(name, kind, config, annotators.judging) for kind, name in kinds if name}
    shard = shard_of(annotators.judging)
    judging: Row = {"text": rules.text, "agreements": annotators.calibrations, "shard": shard, "show": show}
    if shard is not None and shard.number:
        if not judges:
            raise UsageError(f"--shard {shard} divides the verdicts of judges; expected one. Name it, or leave it out.")
        for kind, judge in judges.items():
            with suppress(ShardEnd):
                annotate_verdicts(examples, answers, folder, kind, judge, **judging)
        for end in (ShardEnd(folder / "work" / kind, shard) for kind in judges):
            if not end.is_last:
                raise end
        collecting = replace(annotators, judging={**annotators.judging, "shard": None, "collect": True})
        return annotate_predictions(task, answers, folder, collecting, show=show)
    report: Row = {"annotations": str(folder)}
    if annotators.topics:
        own = annotators.corpus
        corpus = rules.corpus(find_dataset(task.task_key.benchmark), config) if own is None else _corpus(own)
        n_topics, models, seeds = rules.n_topics(config), annotators.topic_models, annotators.topic_seeds
        annotate_topics(examples, answers, folder, corpus, n_topics, models, seeds=seeds, show=show)
        missing = f", for want of {corpus.instead_of}" if corpus.instead_of else ""
        report["topic models"] = f"for each mode {len(seeds)} trained on {corpus.name}{missing}"
    if annotators.embedder:
        embedder = SentenceEmbedder(annotators.embedder, batch=annotators.judging.get("batch_size") or 16)
        thresholds = thresholds_of(embedder.name, annotators.thresholds, corpus=config)
        n = annotate_embeddings(rules, examples, answers, folder, embedder, thresholds, show=show)
        report["embeddings"] = f"{n:,} elements encoded"
    if annotators.stored_cosines:
        n = annotate_stored_cosines(examples, folder, annotators.stored_cosines)
        report["cosines"] = f"{n:,} documents"
    for kind, judge in judges.items():
        report[kind] = dict(annotate_verdicts(examples, answers, folder, kind, judge, **judging))
    return report


def _needed_annotators(annotators: Annotators, rules: AnnotationRules, benchmark: str) -> Annotators:
    """Return the annotators without those whose kind no metric of a benchmark uses.

    Raises:
        UsageError: none is left, or there is an embedder that no metric uses.
    """
    needs = rules.needs
    if (annotators.embedder or annotators.stored_cosines) and "embeddings" not in needs:
        raise UsageError(f"{benchmark} needs only {', '.join(needs)}, which uses no embedder. Name a judge only.")
    used = replace(
        annotators,
        topics=annotators.topics and "topics-reference" in needs,
        split_judge=annotators.split_judge if "granularity" in needs else None,
    )
    if not used:
        raise UsageError(f"{benchmark} needs only {', '.join(needs)}. Name a judge for it.")
    return used


def annotation_rules(task: EvalTask) -> AnnotationRules:
    """Return the rules for annotations of a task's benchmark.

    Raises:
        UsageError: its metrics need no annotations.
    """
    if task.benchmark.scoring.annotations is None:
        name = task.task_key.benchmark
        raise UsageError(f"{name} is scored without annotations; there is nothing to make. Score it.")
    return task.benchmark.scoring.annotations


def n_failed(report: Row) -> int:
    """Return how many items of a report of `annotate_predictions` have no verdict because a request failed.

    >>> n_failed({"factualness": {"ok": 3, "failed: 500": 2}})
    2
    """
    verdicts = [each for what in report.values() if isinstance(what, dict) for each in what.items()]
    return sum(n for status, n in verdicts if status.startswith("failed"))


def judge_of(name: str, kind: str, config: str, judging: RunOptions) -> AnyJudge:
    """Return the judge of a name, of one kind of verdict on the triples of a config; `judging` as in `Annotators`."""
    served = bool(judging.get("base_url")) and name.partition(":")[0] not in ("surface", "nli", "stored")
    if not served and not name.startswith("hf:"):
        return judge_by_name(name, kind, config)
    name = name.removeprefix("llm:")
    model, sampling = language_model(name, judging), Sampling(max_tokens=judging.get("max_tokens"))
    return ChatJudge(model, sampling, judging.get("structured"), asking_options(name, model, judging))


def _corpus(file: Path) -> TopicCorpus:
    """Return the texts of a file: a JSON list of them, as a release has it, or one a line; blank ones are left out.

    Raises:
        UsageError: there is no such file.
        DataError: it has another form.
    """
    if not file.is_file():
        raise UsageError(f"{file} does not exist; expected a corpus, a text a line or a JSON list. Check the path.")
    written = file.read_text(encoding="utf-8")
    try:
        texts = json.loads(written) if file.suffix == ".json" else written.splitlines()
    except ValueError as error:
        raise DataError(f"{file} is not JSON ({error}); expected a list of texts.") from None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataError(
            f"{file} is not a list of texts; expected a JSON list of strings, or a .txt file with one text per line."
        )
    kept = [text for text in texts if text.strip()]
    return TopicCorpus(kept, f"{file.name}, {len(kept):,} texts")


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
    """Write the vectors of every element of gold and predicted triples; return how many were encoded now.

    Stored vectors of the same embedder and thresholds are reused.
    """
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
    """Write the cosines that a release stored for one system; return how many documents have some.

    The file has `{text: {gold triple: [cosine, ...]}}`, of vectors of text-embedding-ada-002. Completeness needs no
    more. The cosines of CDR belong to older gold than that of the last release.

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

    A model is trained on `corpus` for each seed. It is kept in the folder `models` with the shares of the source texts,
    for the next set of predictions. The shares of all seeds stand next to each other: `len(seeds) * n_topics` a row.
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
                    "source": _list_column(np.concatenate(source, axis=1)),
                    "triples": _list_column(np.concatenate(triples, axis=1)),
                }
            )
            write_annotation(folder, f"topics-{mode}", _identity(identities, corpus), table)


def _identity(of_models: Sequence[Mapping[str, Any]], corpus: TopicCorpus) -> dict[str, Any]:
    """Return the identity of topics: the settings that the models share, the seed and hash of each, and the corpus."""
    shared = {name: value for name, value in of_models[0].items() if name not in ("seed", "model_sha256")}
    return {
        **shared,
        "seeds": [each["seed"] for each in of_models],
        "models_sha256": [each["model_sha256"] for each in of_models],
        "corpus": corpus.name,
        **({"instead_of": corpus.instead_of} if corpus.instead_of else {}),
    }


def _topic_model(file: Path, corpus: Sequence[str], settings: LdaSettings) -> TopicModel:
    """Return the topic model of a file; where there is none, train it and write the file."""
    if file.is_file():
        return TopicModel.load(file)
    model = TopicModel.train(corpus, settings)
    model.save(file)
    return model


def _source_shares(place: Path, model: TopicModel, examples: Examples) -> Any:
    """Return the topic shares of the source texts, shape (documents, topics).

    They are stored next to the model, because they are the same for every system.
    """
    identity = {**model.identity, "documents_sha256": sha256("".join(examples.ids).encode("utf-8")).hexdigest()}
    kept = read_annotation(place, "sources", identity)
    if kept is not None:
        return np.array(kept.table["source"].to_pylist())
    shares = model.shares([content_words(row["text"], model.settings.mode) for row in examples.rows])
    write_annotation(place, "sources", identity, pa.table({"source": _list_column(shares)}))
    return shares


def _elements(rules: AnnotationRules, examples: Examples, answers: Sequence[Answer | None]) -> Iterator[str]:
    """Yield the subjects, relations and objects of gold and predicted triples in all modes, with repetitions."""
    for row, answer in zip(examples.rows, answers, strict=True):
        for mode in MODES:
            for triple in (*rules.gold(row, mode), *select_triples(answer or [], mode)):
                if not isinstance(triple, str) and len(triple) == 3:
                    yield from (element for element in triple if isinstance(element, str))


def _list_column(matrix: Any) -> pa.Array:
    """Return the rows of a matrix as a column of lists of equal length."""
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(matrix).ravel()), matrix.shape[1])
