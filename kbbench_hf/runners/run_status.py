"""Status of a run from its files alone: examples done, failed and under way, rate, cost and time left.

`kbbench status` uses it, also on another machine than the run's, and for runs of earlier versions. It only reads. It
must not raise for a file that is damaged or being written: the next reading may be whole.
"""

import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbbench_hf.errors import UsageError
from kbbench_hf.files import RUN
from kbbench_hf.files.heartbeat import bytes_of, is_alive, read_report
from kbbench_hf.files.journal import Record, decode
from kbbench_hf.files.shards import STALE_S, Shard, claim_file, has_ended, newest_claims
from kbbench_hf.llm.failures import SETTLED
from kbbench_hf.protocols import produced_tokens, token_count
from kbbench_hf.runners.cost import Price

RUNNING, PAUSED, UNCONFIRMED, COMPLETE, FINISHED = "running", "paused", "unconfirmed", "complete", "finished"
ALIVE = (RUNNING, PAUSED, UNCONFIRMED)
_COUNTS = ("n_done", "n_total")
_REPORTED = (*_COUNTS, "under_way", "concurrency", "rate_per_s", "abilities")
"""Fields of a report that are shown while its process lives; of an ended process, only the counts."""


@dataclass
class WorkStatus:
    """The progress of a run, of the annotation of its predictions, or of one of its processes or shards.

    Counts of a run are of its journals, at this moment. Those of a process are of its last report, at most a second
    before, as is `under_way` (requests or examples) everywhere. A value is None if the files do not tell it.
    """

    name: str
    state: str
    """running, paused; unconfirmed: on another machine, its report has not changed yet while we watch; finished;
    complete: all examples are done, and there is no result; stopped, killed, ended, not started."""
    n_done: int | None = None
    """Examples that are answered or failed."""
    n_total: int | None = None
    failed: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of examples."""
    under_way: int = 0
    concurrency: int | None = None
    rate_per_s: float | None = None
    """Examples per second over the last minute."""
    seconds_left: float | None = None
    cost: float | None = None
    currency: str | None = None
    note: str = ""
    abilities: Sequence[str] = ()
    """What the user can change while the process runs: pause, concurrency."""
    processes: "list[WorkStatus]" = field(default_factory=list)
    annotations: "list[WorkStatus]" = field(default_factory=list)


class _JournalCounts:
    """Counts of the complete lines of a journal; each reading continues where the last one ended."""

    def __init__(self) -> None:
        self.end = self.n_damaged = self.prompt_tokens = self.completion_tokens = 0
        self.done: set[object] = set()
        self.failed: dict[object, str] = {}
        self.has_turns = False

    def read_on(self, file: Path) -> None:
        with file.open("rb") as lines:
            lines.seek(self.end)
            for line in lines:
                if not line.endswith(b"\n"):  # it is being written
                    break
                self.end += len(line)
                if (record := decode(line, brief=True)) is None:
                    self.n_damaged += 1
                else:
                    self._add(record)

    def _add(self, record: Record) -> None:
        key: object = record["key"]
        if "attempts" in record:  # of a language model
            self.prompt_tokens += token_count(record["prompt_tokens"]) or 0
            self.completion_tokens += produced_tokens(record) or 0
            key = record["id"], record["repeat"]
            if record["id"] is None or ", try " in str(record["id"]):
                return
        elif "session" in record or "call" in record:  # of an agent that came over MCP
            key = record["key"].partition("/")[0]
            if not record.get("finished"):
                return
        self.has_turns |= "request_sha256" in record
        if record.get("error") is None:
            self.done.add(key)
            self.failed.pop(key, None)
        else:
            self.failed[key] = record["error"]


class StatusReader:
    """Reads the status of a run folder, or of the folder of annotations of a file; of journals only the new lines.

    Raises:
        UsageError: the folder holds neither.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._journals: dict[Path, _JournalCounts] = {}
        self._changes: dict[Path, tuple[bytes, float, bool]] = {}
        """Report of another machine -> content, since when by our clock, and whether it was seen to change."""
        works = sorted({*folder.glob("*annotations/work/*/"), *folder.glob("work/*/")})
        self._annotations = [StatusReader(work) for work in works if any(work.glob("journal*.jsonl"))]
        if not (folder / RUN).is_file() and not self._annotations and not any(folder.glob("journal*.jsonl")):
            base, runs = Path(f"{folder}-base"), [*folder.glob(f"**/{RUN}")]
            remedy = f"Write: kbbench status {base}" if (base / RUN).is_file() else "Check the path."
            if steps := sorted(folder.glob("*/journal*.jsonl"), key=lambda file: file.stat().st_mtime):
                remedy = (
                    f"It has the steps of a synthesis; the last: kbbench status {shlex.quote(str(steps[-1].parent))}"
                )
            remedy = f"It holds {len(runs):,} runs: add --all." if runs else remedy
            raise UsageError(f"{folder} is not a run; expected a folder with {RUN}. {remedy}")

    def read(self) -> WorkStatus:
        """Return the status now; processes are shards first, then single processes."""
        run = read_report(self.folder / RUN)
        settings, summary = (
            found if isinstance(found := run.get(key), dict) else {} for key in ("settings", "summary")
        )
        is_annotation = self.folder.parent.name == "work"
        result = self.folder / ("result.json" if not is_annotation else f"../../{self.folder.name}.parquet")
        status = WorkStatus(str(self.folder), "stopped", annotations=[each.read() for each in self._annotations])
        prices = list[Mapping[str, Any]]()
        for name, file, has_end in self._report_files():
            holder = {} if file is None else read_report(file)
            status.processes.append(self._process_status(name, file, holder, has_end=has_end))
            prices += filter(None, [(holder.get("report") or {}).get("price")])
        # an end of a process alone leaves no report; a claim remains
        killed = [each for each in status.processes if each.state == "killed" and each.name.startswith("process")]
        finished = (result.is_file() or has_ended(self.folder / "collect", Shard(1, 1))) and not killed
        status.n_total = _n_examples(settings) or sum(each.n_total or 0 for each in status.processes) or None
        self._count_examples(status, settings, finished=finished)
        alive = [each for each in status.processes if each.state in ALIVE]
        status.cost, status.currency = summary.get("cost"), summary.get("currency")
        if prices:
            tokens = [(each.prompt_tokens, each.completion_tokens) for each in self._journals.values()]
            price = Price(**prices[0])
            status.cost, status.currency = price.cost(*map(sum, zip(*tokens, strict=True))), price.currency
        damage = f"{RUN} has no settings of a run" if (self.folder / RUN).is_file() and not settings else ""
        reasons = [damage, status.note]
        if alive:
            status.state = next(state for state in ALIVE if state in {each.state for each in alive})
            left = [each.seconds_left for each in alive if each.n_done != each.n_total]
            status.under_way = sum(each.under_way for each in alive)
            status.rate_per_s = sum(each.rate_per_s or 0.0 for each in alive)
            known = [each for each in left if each is not None]
            status.seconds_left = None if None in left or status.n_done is None else max(known, default=0)
        else:
            if finished and not has_open_prompts(summary):
                status.state = FINISHED
            elif not finished and status.n_done == status.n_total is not None:
                status.state = COMPLETE
            elif "killed" in {each.state for each in status.processes}:
                status.state = "killed"
            reasons += [*filter(None, [summary.get("stopped"), *(each.note for each in status.processes)])][:1]
        status.note = "; ".join(filter(None, reasons))
        return status

    def _count_examples(self, status: WorkStatus, settings: Mapping[str, Any], *, finished: bool) -> None:
        """Count the examples in the journals, and set `n_done`, `failed` and `note` of the status."""
        for file in self.folder.glob("journal*.jsonl"):
            if file not in self._journals or self._journals[file].n_damaged:  # which a network disk may mend
                self._journals[file] = _JournalCounts()
            self._journals[file].read_on(file)
        counts = [self._journals[file] for file in sorted(self._journals)]
        done = set().union(*(each.done for each in counts))
        failed = {key: why for each in counts for key, why in each.failed.items() if key not in done}
        status.n_done, status.failed = len(done) + len(failed), dict(Counter(failed.values()))
        if "top_k" in settings and settings.keys().isdisjoint(("agent", "rerank")):  # keys are first queries
            batch = settings.get("batch", 32)
            status.n_done = sum(min(batch, settings["n_examples"] - int(str(key))) for key in done)
        elif any(each.has_turns for each in counts):  # which conversations have ended, their processes alone know
            reported = [each.n_done for each in status.processes if each.n_done is not None]
            status.n_done = status.n_total if finished else sum(reported) if reported else None
        n_damaged = sum(each.n_damaged for each in counts)
        status.note = f"{n_damaged:,} damaged lines" if n_damaged else ""
        if finished and n_damaged:  # all is scored, and the journal does not tell how much that is
            status.n_done = None
        if not counts and status.processes and status.n_total is None:  # the steps of a synthesis have the journals
            for each in (status, *status.processes):
                each.n_done = None
        elif not counts and not status.processes:  # predictions that were copied
            status.n_done, status.note = None, "the folder has no journal"

    def _report_files(self) -> Iterator[tuple[str, Path | None, bool]]:
        """Yield name, file of the report (None: not started) and end marker of each shard, then of each process."""
        claims = newest_claims(self.folder)
        files = {shard: claim_file(self.folder, shard, number) for shard, number in claims.items()}
        # of several divisions, one at most is under way
        now = {shard.count for shard, file in files.items() if is_alive(read_report(file)) is not False}
        for n in sorted(now or {shard.count for shard in files}):
            for shard in (Shard(k, n) for k in range(1, n + 1)):
                yield f"shard {shard}", files.get(shard), has_ended(self.folder, shard)
        for file in sorted(self.folder.glob("progress*.json")):
            yield f"process {file.name[9:-5] or 0}", file, False

    def _process_status(self, name: str, file: Path | None, holder: Mapping[str, Any], *, has_end: bool) -> WorkStatus:
        if file is None:
            return WorkStatus(name, "not started")
        alive, report = is_alive(holder), holder.get("report") or {}
        state = PAUSED if report.get("paused") else RUNNING
        if has_end and not alive:
            state = "ended"
        elif alive is False:
            state = "stopped" if holder.get("released") else "killed"
        elif alive is None:
            state = self._state_by_changes(file, state)
        shown = _REPORTED if state in ALIVE else _COUNTS
        status = WorkStatus(name, state, **{key: report[key] for key in shown if key in report})
        where = f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'an unknown host')}"
        status.note = holder.get("ended") or ""
        if state in ALIVE:
            status.note = "; ".join(filter(None, (report.get("note"), where)))
        if state == RUNNING and status.rate_per_s and status.n_total is not None and status.n_done is not None:
            status.seconds_left = (status.n_total - status.n_done) / status.rate_per_s
        return status

    def _state_by_changes(self, file: Path, state: str) -> str:
        """Return the state of a process of another machine, whose clock is not compared with ours."""
        content, now = bytes_of(file), time.monotonic()
        before, since, is_confirmed = self._changes.setdefault(file, (content, now, False))
        if before != content:
            since, is_confirmed = now, True
            self._changes[file] = content, since, is_confirmed
        return "killed" if now - since > STALE_S else state if is_confirmed else UNCONFIRMED


def has_open_prompts(summary: Mapping[str, Any]) -> bool:
    """Say whether a run with this `summary` of its `run.json` sends prompts when it is started again.

    It does if it was stopped, or if requests failed; a refusal is an outcome. False for runs without a summary.
    """
    return bool(summary.get("stopped") or set(summary.get("errors") or ()) - SETTLED)


def _n_examples(settings: Mapping[str, Any]) -> int | None:
    """Return how many prompts or queries a run with these settings has; None where they do not say."""
    n = settings.get("n_examples")
    if n is not None and "rerank" in settings:
        n *= _n_prompts_a_query(settings)
    return None if n is None else n * settings.get("repeats", 1)


def _n_prompts_a_query(settings: Mapping[str, Any]) -> int:
    """Return how many prompts re-rank one query: one per candidate, of a cross-encoder one per batch of them."""
    n_candidates: int = min(settings["depth"], settings.get("top_k", settings["depth"]))
    if not str(settings["rerank"]).startswith("cross:"):
        return n_candidates
    from kbbench_hf.model_specs import parse, positive
    from kbbench_hf.retrieval.reranker import BY_CROSS_ENCODER

    batch: int = parse(settings["rerank"]).read(batch=(positive, BY_CROSS_ENCODER.batch))["batch"]
    return -(-n_candidates // batch)
