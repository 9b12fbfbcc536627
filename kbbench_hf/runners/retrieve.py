"""Ranking candidates for every question of a benchmark: in one process or a group, resumable, the same bytes always."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models import Workplace, retriever
from kbbench_hf.models.exact_search import Share
from kbbench_hf.models.specs import parse
from kbbench_hf.protocols import Ranking, Retriever
from kbbench_hf.runners.journal import Journal
from kbbench_hf.runners.progress import progress
from kbbench_hf.runners.run_folder import RUN, add_to_run, open_run

DOCUMENTS = {"stark-prime": "prime", "stark-mag": "mag", "stark-amazon": "amazon"}
"""The renderings of the benchmarks whose figures were published on documents of their own form."""
N_TIMED = 100
"""Questions that are asked one by one after a run, to measure latency."""


@dataclass(frozen=True)
class Latency:
    """How long one question took, asked alone, in seconds of wall time; None where there was none."""

    latency_p50_s: float | None
    latency_p95_s: float | None
    n_timed: int


@dataclass(frozen=True)
class Retrieval:
    """A finished run."""

    folder: Path
    """Holds `run.json`, `journal.jsonl` and `predictions.jsonl`."""
    rank: int
    """Of this process in its group; only the first (0) has anything left to do."""
    latency: Latency


def retrieve(
    examples: Examples,
    kb: KnowledgeBase,
    model: str,
    folder: Path,
    *,
    about: Mapping[str, Any],
    top_k: int = 100,
    batch: int = 32,
    training: Examples | None = None,
    processes: int | None = None,
    cache: Path | None = None,
    show: bool = True,
) -> Retrieval:
    """Rank the candidates for every example; write `folder/predictions.jsonl`: `{"id", "ids", "scores"}`, best first.

    Where the group has several processes (started by torchrun), each encodes and searches its own part of the corpus.
    The file is the same bytes for any number of processes and after any number of interruptions: the same call goes on
    where the last one stopped. A model sees the questions' words, never their ids.

    Args:
        examples: rows with `id` and `query`; `context.candidates.ids`, where there, says which nodes may be ranked.
        kb: the knowledge base.
        model: a retriever's name, see `models.specs`.
        folder: the run's folder.
        about: benchmark, config, split and dataset revision, for `run.json`.
        top_k: candidates per example.
        batch: questions searched at once; decides the last bits of scores, so it belongs to the run.
        training: the training split, for `knn`; others never see it.
        processes: how many processes must be running.
        cache: where embeddings are kept; `~/.cache/kbbench-hf/embeddings` where None.
        show: whether the first process shows a progress bar.

    Raises:
        UsageError: an unknown model, another run in the folder, or another number of processes than asked for.
        BusyError: another process runs in this folder.
    """
    spec, share = parse(model), group(processes)
    first = share.rank == 0
    settings = {**about, "model": str(spec), "knowledge_base": kb.hash, "n_examples": len(examples.rows)}
    settings |= {"top_k": top_k, "batch": batch}
    with ExitStack() as stack:
        if first:
            open_run(folder, settings, {"processes": share.size})
        journal = stack.enter_context(Journal(folder)) if first else None
        place = Workplace(
            kb,
            cache or default_cache(),
            _candidates(examples, kb),
            share,
            partial(progress, show=show and first),
            DOCUMENTS.get(about.get("benchmark", "")),
            None if training is None else [(row["query"], row["answer_ids"]) for row in training.rows],
        )
        built = retriever(spec, place)
        if first:
            _check_revisions(folder, place.revisions)
        questions = [row["query"] for row in examples.rows]
        batches = {
            str(start): range(start, min(start + batch, len(questions))) for start in range(0, len(questions), batch)
        }
        done = share.gather(None if journal is None else [key for key in batches if key in journal])[0]
        with place.progress(
            f"Search with {spec.name}", len(questions), done=sum(len(batches[key]) for key in done)
        ) as advance:
            for key, rows in batches.items():
                if key in done:
                    continue
                ranking = built.search([questions[row] for row in rows], top_k)
                if journal is not None:
                    journal.append({"key": key, "error": None, "ranked": list(_ranked(ranking, kb))})
                advance(len(rows))
        latency = _latency(built, questions[:N_TIMED], top_k, place)
        if journal is not None:
            _write(folder / "predictions.jsonl", _lines(examples, batches, journal))
            add_to_run(folder, latency=asdict(latency))
    return Retrieval(folder, share.rank, latency)


def group(processes: int | None = None) -> Share:
    """Return this process's share in the group that torchrun or Accelerate started; a group of one otherwise.

    Raises:
        UsageError: the group has another number of processes than `processes`.
    """
    share = Share()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from accelerate import PartialState
        from accelerate.utils import gather_object

        state = PartialState(cpu=True)
        share = Share(state.process_index, state.num_processes, lambda value: gather_object([value]))
    if processes is not None and processes != share.size:
        raise UsageError(
            f"{share.size} process(es) are running, but {processes} were asked for. Start the group with "
            f"'torchrun --nproc_per_node {processes} -m kbbench_hf.cli ...'; 'accelerate launch --cpu' starts only one."
        )
    return share


def default_cache() -> Path:
    """Return where embeddings are kept: under `$XDG_CACHE_HOME`, by default `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kbbench-hf" / "embeddings"


def _candidates(examples: Examples, kb: KnowledgeBase) -> NDArray[np.int64] | None:
    """Return the rows that may be ranked, or None where these are all."""
    candidates = getattr(examples.context, "candidates", None)
    if candidates is None or len(candidates.ids) == len(kb):
        return None
    return np.sort(kb.rows(candidates.ids))


def _check_revisions(folder: Path, revisions: Mapping[str, str]) -> None:
    """Write the revisions of the models into `run.json`, or check that they are what an earlier start wrote."""
    before = json.loads((folder / RUN).read_text(encoding="utf-8")).get("revisions")
    if before is None:
        add_to_run(folder, revisions=dict(revisions))
    elif before != dict(revisions):
        raise UsageError(
            f"The models have changed since {folder} was begun: {before} then, {dict(revisions)} now. "
            "Name another folder with --out."
        )


def _ranked(ranking: Ranking, kb: KnowledgeBase) -> Iterator[dict[str, Any]]:
    for rows, scores in zip(ranking.ids, ranking.scores, strict=True):
        found = rows >= 0
        yield {"ids": kb.ids(rows[found]), "scores": scores[found].tolist()}


def _lines(examples: Examples, batches: Mapping[str, range], journal: Journal) -> Iterator[str]:
    for rows, record in zip(batches.values(), journal.read(batches), strict=True):
        if record is None:
            raise KBBenchError("A part of the run is missing from its journal. Start the same run again.")
        for row, ranked in zip(rows, record["ranked"], strict=True):
            yield json.dumps({"id": examples.rows[row]["id"], **ranked}, ensure_ascii=False) + "\n"


def _latency(built: Retriever, questions: list[str], top_k: int, place: Workplace) -> Latency:
    seconds = []
    with place.progress("Time one by one", len(questions)) as advance:
        for question in questions:
            start = perf_counter()
            built.search([question], top_k)
            seconds.append(perf_counter() - start)
            advance(1)
    if not seconds:
        return Latency(None, None, 0)
    p50, p95 = np.quantile(seconds, [0.5, 0.95]).tolist()
    return Latency(p50, p95, len(seconds))


def _write(file: Path, lines: Iterable[str]) -> None:
    """Write a file whole or not at all."""
    partial_file = file.with_suffix(".partial")
    with partial_file.open("w", encoding="utf-8") as out:
        out.writelines(lines)
        out.flush()
        os.fsync(out.fileno())
    partial_file.replace(file)
