"""Retrieval runs: rank candidates for every query, in one process or a group, resumable and deterministic.

`retrieval_run` and `run` use it; agents and re-rankers share `RankedRun`. `predictions.jsonl` must be the same bytes
for any number of processes, shards and interruptions: batches depend on the run alone, and the journal's key of a batch
is the number of its first query.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning, unmatched_warning
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.datasets import Row, read_json
from kbbench_hf.files.heartbeat import PAUSE
from kbbench_hf.files.journal import Journal
from kbbench_hf.files.shards import COLLECT, IncompleteError, Shard, check_group, end_shard, read_again
from kbbench_hf.files.writing import whole_file, write_json_lines
from kbbench_hf.protocols import Found, ProcessGroup, Searcher, matched
from kbbench_hf.runners.process_group import check_same, check_shared, group
from kbbench_hf.runners.progress import progress
from kbbench_hf.runners.run_folder import add_to_run, open_run
from kbbench_hf.scoring.eval_task import RUN
from kbbench_hf.scoring.score import EXPLANATIONS

if TYPE_CHECKING:
    from kbbench_hf.runners.run_summary import RunSummary
    from kbbench_hf.scoring.trajectories import Trajectory

N_EXPLAINED = 1000
"""Queries whose rankings are explained, by searchers that have explanations."""
N_TIMED = 100
"""Queries that are searched one by one after a run, to measure latency."""


@dataclass(frozen=True)
class Latency:
    """Wall time of single queries in seconds; None if none was measured. `run.json` stores the fields."""

    latency_p50_s: float | None = None
    latency_p95_s: float | None = None
    n_timed: int = 0

    def __str__(self) -> str:
        """Return the latency in words; empty where none was measured."""
        if self.latency_p50_s is None or self.latency_p95_s is None:
            return ""
        p50, p95 = 1000 * self.latency_p50_s, 1000 * self.latency_p95_s
        return f"latency per query: p50 {p50:.1f} ms, p95 {p95:.1f} ms (over {self.n_timed} queries)"


class RankedRun(NamedTuple):
    """A finished run that wrote rankings: of a retriever, or of a re-ranker or an agent over a retriever's run."""

    folder: Path
    rows: list[Row] | None
    """Its predictions, in the order of the examples; None in processes other than the first."""
    latency: Latency | None = None
    summary: "RunSummary | None" = None
    warnings: Sequence[ScoreWarning] = ()
    structured: bool = False
    """Whether a JSON schema constrained the responses."""
    n_unread: int | None = None
    """Responses of a re-ranker without a score."""
    trajectories: "Sequence[Trajectory]" = ()
    """Of an agent's run, in the order of the examples; else empty."""


def add_second_stage(done: RankedRun, base: Row) -> None:
    """Add the facts of a re-ranker's or agent's run to its `run.json`; its warnings follow those of its base run."""
    if (summary := done.summary) is None:
        return
    facts: Row = {"model": summary.model, "summary": summary.to_json(), "n_unread": done.n_unread}
    warnings = [*base.get("warnings", []), *(each.to_dict() for each in done.warnings)]
    facts |= {"structured": done.structured, "texts": base.get("texts", {}), "warnings": warnings}
    add_to_run(done.folder, **{name: value for name, value in facts.items() if value is not None})


@dataclass(frozen=True)
class Site:
    """What a searcher is built with: the process group, progress bars, and collections that models fill in."""

    share: ProcessGroup
    progress: Callable[..., AbstractContextManager[Any]]
    revisions: dict[str, str]
    """Model -> its revision; models fill it in."""
    texts: dict[str, dict[str, object]]
    """Model -> the rendering and fields of the texts that it reads; models fill it in."""
    warnings: list[ScoreWarning] = field(default_factory=list)
    """Warnings on the models; models fill it in."""


@read_again
def retrieve(
    examples: Examples,
    build: Callable[[Site], Searcher],
    folder: Path,
    settings: Mapping[str, Any],
    *,
    top_k: int = 100,
    batch: int = 32,
    processes: int | None = None,
    timed: bool = True,
    shard: Shard | None = None,
    show: bool = True,
) -> RankedRun:
    """Rank candidates for every example; write `folder/predictions.jsonl`: `{"id", "ids", "scores"}`, best first.

    In a group of several processes (started by torchrun), each builds and searches its own part. The file is the same
    bytes for any number of processes and after any number of interruptions: the same call resumes. A searcher gets the
    texts of queries, never their ids.

    `build` makes the searcher once the folder is known to be this run's. `settings` decide the results, for `run.json`;
    so does `batch`, the number of queries of one search, in the last bits of scores. `processes`, if given, must be the
    size of the group. With `timed`, some queries are searched again, one by one, to measure latency. With a `shard`,
    only its batches are searched and journaled; with `COLLECT`, none.

    Raises:
        UsageError: another run in the folder, or another number of processes than asked for.
        BusyError: another process runs in this folder.
        IncompleteError: with `COLLECT`, a batch is missing.
        ShardEnd: a shard has ended.
    """
    share = group(processes)
    check_group(shard, share.size)
    first = share.rank == 0
    settings = {**settings, "n_examples": len(examples.rows), "top_k": top_k, "batch": batch}
    with ExitStack() as stack:
        undo = stack.enter_context(ExitStack())  # a model that cannot be built leaves no folder behind
        if first and shard is None and not folder.exists():
            undo.callback(shutil.rmtree, folder)
        if first:
            open_run(folder, settings, {"processes": share.size}, shard=shard)
        check_shared(share, folder)
        check_same(share, settings)
        abilities = (PAUSE,) if share.size == 1 else ()  # others would wait in vain
        journal = stack.enter_context(Journal(folder, shard or 0, abilities=abilities)) if first else None
        heartbeat = None if journal is None else journal.heartbeat
        if heartbeat is not None and shard != COLLECT:
            heartbeat.start()
        site = Site(share, partial(progress, show=show and first, heartbeat=heartbeat), {}, {})
        questions = [row["query"] for row in examples.rows]
        places = range(len(questions))
        batches = {str(start): places[start : start + batch] for start in range(0, len(places), batch)}
        own = {key: each for n, (key, each) in enumerate(batches.items()) if shard is None or shard.owns(n)}
        lacking = [key for key in batches if journal is not None and key not in journal]
        if shard == COLLECT and lacking:
            raise IncompleteError(folder, sum(len(batches[key]) for key in lacking), len(questions), "queries")
        if own.keys().isdisjoint(lacking):
            end_shard(shard, folder)  # without the model, which may be large
        run = read_json(folder / RUN) if share.size == 1 else {}
        is_scored = run.get("latency", {}).get("n_timed") and run.get("revisions") == {}
        if journal is not None and (is_scored or (shard == COLLECT and "latency" in run)):
            # finished, without weights that may have changed since; the latency is written last
            written = _write_predictions(folder, examples, batches, journal)
            undo.pop_all()
            return RankedRun(folder, written, Latency(**run["latency"]))
        searcher = build(site)
        check_same(share, site.revisions)
        undo.pop_all()
        if first:
            _check_revisions(folder, site.revisions)
            add_to_run(folder, texts=site.texts)
        title = f"Ranking with {str(settings['model']).partition('(')[0]}"
        done = share.gather(None if journal is None else [key for key in batches if key in journal])[0]
        n_done = sum(len(own[key]) for key in done if key in own)
        with site.progress(title, sum(map(len, own.values())), done=n_done, counts=True) as advance:
            _search_batches(
                searcher, {key: own[key] for key in own if key not in done}, questions, top_k, journal, advance
            )
        end_shard(shard, folder)
        explained = _explain_rankings(searcher, examples.rows[:N_EXPLAINED], site)
        latency = _latency(searcher, questions[:N_TIMED], top_k, site) if timed else Latency()
        rows: list[Row] | None = None
        if journal is not None:
            unmatched = ~matched(searcher, questions)
            rows = _write_predictions(folder, examples, batches, journal)
            unmatched |= np.array([*map(_is_tied, rows)], dtype=bool)
            if explained:
                with whole_file(folder / EXPLANATIONS) as sink:
                    sink.writelines(line.encode() for line in explained)
            noted = [*site.warnings, *unmatched_warning(int(unmatched.sum()), len(questions))]
            warnings = [each.to_dict() for each in noted]
            add_to_run(folder, latency=asdict(latency), warnings=warnings)
    share.gather(None)  # so that every process finds the predictions when this returns
    return RankedRun(folder, rows, latency)


def _search_batches(
    searcher: Searcher,
    batches: Mapping[str, range],
    questions: Sequence[str],
    top_k: int,
    journal: Journal | None,
    advance: Callable[[int], object],
) -> None:
    """Search the questions of each batch; the process with the journal stores their rankings."""
    for key, numbers in batches.items():
        advance(0)  # waits while the run is paused
        if journal is not None:
            journal.heartbeat.under_way = len(numbers)
        found = searcher.search([questions[row] for row in numbers], top_k)
        if journal is not None:
            rankings = [_ranking_fields(each[:top_k]) for each in found]
            if len(rankings) != len(numbers):
                message = f"The model found {len(rankings)} lists for {len(numbers)} queries; expected one for each."
                raise UsageError(f"{message} Fix its `search`.")
            journal.append({"key": key, "error": None, "ranked": rankings})
            journal.heartbeat.under_way = 0
        advance(len(numbers))


def _write_predictions(folder: Path, examples: Examples, batches: Mapping[str, range], journal: Journal) -> list[Row]:
    """Write the rankings in the journal as predictions, in the order of the examples, and return them.

    Raises:
        KBBenchError: a batch is missing.
    """
    rows = list[Row]()
    for numbers, record in zip(batches.values(), journal.read(batches), strict=True):
        if record is None:
            raise KBBenchError("A part of the run is missing from its journal. Start the same run again.")
        rows += [{"id": examples.rows[n]["id"], **each} for n, each in zip(numbers, record["ranked"], strict=True)]
    write_json_lines(folder / "predictions.jsonl", rows)
    return rows


def _check_revisions(folder: Path, revisions: Mapping[str, str]) -> None:
    """Write the revisions of the models into `run.json`, or compare them with those of an earlier start.

    Raises:
        UsageError: they differ, so that one file would mix rankings of two models.
    """
    before = read_json(folder / RUN).get("revisions")
    if before is None:
        add_to_run(folder, revisions=dict(revisions))
    elif before != dict(revisions):
        raise UsageError(
            f"The models have changed since {folder} was begun: {before} then, {dict(revisions)} now. "
            "Name another folder with --out."
        )


def _ranking_fields(found: Found) -> dict[str, list[Any]]:
    """Return the fields of a prediction for the candidates of one query: ids, and scores if each has one."""
    pairs = [each if isinstance(each, tuple | list) else (each, None) for each in found]
    scores = [score for _, score in pairs if score is not None]
    ids = [each.item() if isinstance(each, np.generic) else each for each, _ in pairs]
    return {"ids": ids, "scores": [float(score) for score in scores]} if len(scores) == len(ids) else {"ids": ids}


def _is_tied(ranked: Mapping[str, Sequence[float]]) -> bool:
    """Return whether several candidates have one score, so that only their ids order them."""
    scores = ranked.get("scores", ())
    return len(scores) > 1 and min(scores) == max(scores)


def _explain_rankings(searcher: Searcher, rows: Sequence[Mapping[str, Any]], site: Site) -> list[str]:
    """Return a line of `explanations.jsonl` per query; empty for searchers without explanations.

    Every process calls the searcher, because the processes of some search together.
    """
    explain = getattr(searcher, "explain", None)

    def explanation(row: Mapping[str, Any]) -> Any:
        return explain(row["query"], row.get("answer_ids", ())) if explain is not None else None

    if not rows or explanation(rows[0]) is None:
        return []
    found: list[str] = []
    with site.progress("Explaining rankings", len(rows)) as advance:
        for row in rows:
            found.append(json.dumps({"id": row["id"], **_record(explanation(row))}, ensure_ascii=False) + "\n")
            advance(1)
    return found


def _record(value: Any) -> Any:
    """Return a value with its named tuples, at all levels, as dictionaries; fields that are None are left out."""
    if hasattr(value, "_asdict"):
        return {name: _record(each) for name, each in value._asdict().items() if each is not None}
    return [_record(each) for each in value] if isinstance(value, list | tuple) else value


def _latency(searcher: Searcher, questions: Sequence[str], top_k: int, site: Site) -> Latency:
    """Return the latency of the queries, searched one by one; every process must call it."""
    seconds = []
    with site.progress("Measuring latency", len(questions)) as advance:
        for question in questions:
            start = perf_counter()
            searcher.search([question], top_k)
            seconds.append(perf_counter() - start)
            advance(1)
    if not seconds:
        return Latency()
    p50, p95 = np.quantile(seconds, [0.5, 0.95]).tolist()
    return Latency(p50, p95, len(seconds))
