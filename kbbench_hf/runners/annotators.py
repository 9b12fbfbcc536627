"""Annotators (judges, embedders, topic models) by name, and the annotation of one set of predictions."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.benchmarks.annotated import AnnotationRules, TopicCorpus
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import Row
from kbbench_hf.files.shards import ShardEnd
from kbbench_hf.judges.topic_model import SEEDS
from kbbench_hf.scoring.eval_task import EvalTask

if TYPE_CHECKING:
    from kbbench_hf.runners.judge import AnyJudge
    from kbbench_hf.runners.run_options import RunOptions

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
    judging: Mapping[str, Any] = field(default_factory=dict)
    """How a language model that judges is reached and asked: `base_url`, `api_key_env`, `structured`, `max_tokens`, ...
    """

    def __bool__(self) -> bool:
        """Whether anything is made at all."""
        return self.topics or any((self.fact_judge, self.split_judge, self.embedder, self.stored_cosines))


def parse_annotators(names: str, **options: Any) -> Annotators:
    """Return the annotators that `JUDGE,EMBEDDER` names: the judge judges facts and splits, topics are made as well.

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
    """Write the annotations of one set of predictions into a folder; return what was made of each kind.

    What is there already and was made alike is kept; an interrupted judge goes on where it stopped.

    A shard (`shard` or `collect` in `annotators.judging`) judges its items only; what needs no judge is made when the
    shards are collected. The last shard to end collects them.

    Raises:
        UsageError: the benchmark needs no annotations, or a name that is no judge or no known embedder's.
        ShardEnd: a shard has ended, and others have not.
        IncompleteError: a shard that is to be collected has not ended.
    """
    from kbbench_hf.judges.thresholds import thresholds_of
    from kbbench_hf.runners.annotate import annotate_embeddings, annotate_stored_cosines, annotate_topics
    from kbbench_hf.runners.judge import annotate_verdicts
    from kbbench_hf.runners.run_options import shard_of

    rules, examples = annotation_rules(task), task.examples
    annotators = _needed_annotators(annotators, rules, task.task_key.benchmark)
    kinds = (("factualness", annotators.fact_judge), ("granularity", annotators.split_judge))
    config = task.task_key.config
    judges = {kind: judge_of(name, kind, config, annotators.judging) for kind, name in kinds if name}  # first of all
    shard = shard_of(cast("RunOptions", annotators.judging))
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
        rest = {name: value for name, value in annotators.judging.items() if name != "shard"}
        annotators = replace(annotators, judging={**rest, "collect": True})
        return annotate_predictions(task, answers, folder, annotators, show=show)
    report: Row = {"annotations": str(folder)}
    if annotators.topics:
        own = annotators.corpus
        corpus = rules.corpus(find_dataset(task.task_key.benchmark), config) if own is None else _corpus(own)
        n_topics, models, seeds = rules.n_topics(config), annotators.topic_models, annotators.topic_seeds
        annotate_topics(examples, answers, folder, corpus, n_topics, models, seeds=seeds, show=show)
        missing = f", for want of {corpus.instead_of}" if corpus.instead_of else ""
        report["topic models"] = f"for each mode {len(seeds)} trained on {corpus.name}{missing}"
    if annotators.embedder:
        from kbbench_hf.retrieval.embedders import SentenceEmbedder

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
    """Return the annotators whose kinds the metrics of a benchmark use.

    Raises:
        UsageError: none of them, or an embedder that nothing uses.
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
    """Return what a benchmark's metrics need of other models.

    Raises:
        UsageError: they need nothing.
    """
    if task.benchmark.scoring.annotations is None:
        name = task.task_key.benchmark
        raise UsageError(f"{name} is scored without annotations; there is nothing to make. Score it.")
    return task.benchmark.scoring.annotations


def n_failed(report: Row) -> int:
    """Return how many items have no verdict because a request failed.

    >>> n_failed({"factualness": {"ok": 3, "failed: 500": 2}})
    2
    """
    verdicts = [each for what in report.values() if isinstance(what, dict) for each in what.items()]
    return sum(n for status, n in verdicts if status.startswith("failed"))


def judge_of(name: str, kind: str, config: str, request_options: Mapping[str, Any]) -> "AnyJudge":
    """Return the judge of a name, of one kind of verdict on the triples of a config.

    `request_options` are the server and request options of a language model, as in `Annotators.judging`.
    """
    from kbbench_hf.runners.jobs import Sampling
    from kbbench_hf.runners.judge import ChatJudge, judge_by_name
    from kbbench_hf.runners.run_options import asking_options, language_model

    judging = dict(request_options)
    served = bool(judging.get("base_url")) and name.partition(":")[0] not in ("surface", "nli", "stored")
    if not served and not name.startswith("hf:"):
        return judge_by_name(name, kind, config)
    sampling = Sampling(max_tokens=judging.pop("max_tokens", None))
    structured, how = judging.pop("structured", None), cast("RunOptions", judging)
    name = name.removeprefix("llm:")
    model = language_model(name, how)
    return ChatJudge(model, sampling, structured, asking_options(name, model, how))


def _corpus(file: Path) -> TopicCorpus:
    """Return the texts of a file: a JSON list of them, as a release has it, or one a line."""
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
