"""Status of a run from its files alone: examples done, failed and under way, rate, cost and time left."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
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


@dataclass
class WorkStatus:
    """How far a run is, or the annotation of its predictions, or one of its processes or shards.

    Counts of a run are of its journals, at this moment. Those of a process are of its last report, at most a second
    before, as is `under_way` (requests or examples) everywhere. What the files do not tell is None.
    """

    name: str
    state: str
    """running, paused; unconfirmed: of another machine, and not yet seen to change; finished; complete: without a
    result; stopped, killed, ended, not started."""
    n_done: int | None = None
    """Examples that are answered or failed."""
    n_total: int | None = None
    failed: Mapping[str, int] = field(default_factory=dict)
    """Reason -> examples."""
    under_way: int = 0
    concurrency: int | None = None
    rate_per_s: float | None = None
    """Examples in a second, over the last minute."""
    seconds_left: float | None = None
    cost: float | None = None
    currency: str | None = None
    note: str = ""
    abilities: tuple[str, ...] = ()
    """What a process can be asked for while it runs."""
    processes: "list[WorkStatus]" = field(default_factory=list)
    annotations: "list[WorkStatus]" = field(default_factory=list)


class _JournalCounts:
    """What the whole lines of a journal say, read on from where the last reading ended."""

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
    """Reads the status of a run folder, or of the folder of annotations of a file; each time only what is new.

    Raises:
        UsageError: the folder holds neither.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._counts: dict[Path, _JournalCounts] = {}
        self._changes: dict[Path, tuple[bytes, float, bool]] = {}
        """File of a process of another machine -> content, since when by our clock, and whether it changed."""
        works = [*folder.glob("*annotations/work/*/"), *folder.glob("work/*/")]
        self._annotations = [StatusReader(work) for work in sorted(works) if any(work.glob("journal*.jsonl"))]
        if not (folder / RUN).is_file() and not self._annotations and folder.parent.name != "work":
            runs = sorted(folder.glob(f"**/{RUN}"))
            base = Path(f"{folder}-base")
            remedy = f"Write: kbbench status {base}" if (base / RUN).is_file() else "Check the path."
            raise UsageError(
                f"{folder} is not a run; expected a folder with {RUN}. "
                + (f"It holds {len(runs):,} runs: add --all." if runs else remedy)
            )

    def read(self) -> WorkStatus:
        """Return the status now."""
        run = read_report(self.folder / RUN)
        settings, summary = run.get("settings") or {}, run.get("summary") or {}
        processes = list(self._processes())
        n_total = _n_examples(settings) or sum(each.n_total or 0 for each in processes) or None
        counts = self._read_journals()
        done, failed = set().union(*(each.done for each in counts)), dict[object, str]()
        for each in counts:
            failed |= {key: why for key, why in each.failed.items() if key not in done}
        finished = (self.folder / "result.json").is_file()
        n_done: int | None = len(done) + len(failed)
        if "batch" in settings and "agent" not in settings and "rerank" not in settings:  # keys are first queries
            n_done = sum(min(settings["batch"], settings["n_examples"] - int(str(key))) for key in done)
        elif any(each.has_turns for each in counts):  # which conversations have ended, their processes alone know
            told = [each.n_done for each in processes if each.n_done is not None]
            n_done = n_total if finished else sum(told) if told else None
        status = WorkStatus(
            str(self.folder), _state(processes, summary, finished, n_done == n_total), n_done, n_total,
            dict(Counter(failed.values())), note=self._note(processes, summary, counts), processes=processes,
            annotations=[each.read() for each in self._annotations],
        )  # fmt: skip
        alive = [each for each in processes if each.state in ALIVE]
        if alive:
            left = [each.seconds_left for each in alive if each.n_done != each.n_total]
            status.under_way = sum(each.under_way for each in alive)
            status.rate_per_s = sum(each.rate_per_s or 0.0 for each in alive)
            status.seconds_left = None if None in left else max((each for each in left if each is not None), default=0)
        status.cost, status.currency = summary.get("cost"), summary.get("currency")
        if prices := [each for report in self._reports() if (each := report.get("report", {}).get("price"))]:
            price = Price(**prices[0])
            tokens = sum(each.prompt_tokens for each in counts), sum(each.completion_tokens for each in counts)
            status.cost, status.currency = price.cost(*tokens), price.currency
        return status

    def _read_journals(self) -> list[_JournalCounts]:
        for file in sorted(self.folder.glob("journal*.jsonl")):
            if file not in self._counts or self._counts[file].n_damaged:  # which a network disk may mend
                self._counts[file] = _JournalCounts()
            self._counts[file].read_on(file)
        return list(self._counts.values())

    def _files(self) -> dict[str, Path | None]:
        """Return the process or shard -> the file of its report; None where it has not started."""
        claims = newest_claims(self.folder)
        files = {shard: claim_file(self.folder, shard, number) for shard, number in claims.items()}
        # of several divisions, one at most is under way
        now = {shard.count for shard, file in files.items() if is_alive(read_report(file)) is not False}
        shards = [Shard(k, n) for n in sorted(now or {shard.count for shard in files}) for k in range(1, n + 1)]
        alone = {f"process {file.name[9:-5] or 0}": file for file in sorted(self.folder.glob("progress*.json"))}
        return {f"shard {shard}": files.get(shard) for shard in shards} | dict[str, Path | None](alone)

    def _reports(self) -> Iterator[dict[str, Any]]:
        yield from (read_report(file) for file in self._files().values() if file is not None)

    def _processes(self) -> Iterator[WorkStatus]:
        for name, file in self._files().items():
            if file is None:
                yield WorkStatus(name, "not started")
                continue
            holder = read_report(file)
            report = holder.get("report") or {}
            n_done, n_total = report.get("n_done"), report.get("n_total")
            state = self._state_of(file, holder, name, paused=bool(report.get("paused")))
            where = f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'an unknown host')}"
            status = WorkStatus(name, state, n_done, n_total, note=holder.get("ended") or report.get("note") or "")
            if state in ALIVE:
                rate = report.get("rate_per_s")
                left = (n_total - n_done) / rate if rate and n_total is not None and state != PAUSED else None
                status = replace(
                    status, under_way=report.get("under_way", 0), concurrency=report.get("concurrency"),
                    rate_per_s=rate, seconds_left=left, abilities=tuple(report.get("abilities", ())),
                    note="; ".join(filter(None, (status.note, where))),
                )  # fmt: skip
            yield status

    def _state_of(self, file: Path, holder: Mapping[str, Any], name: str, *, paused: bool) -> str:
        alive = is_alive(holder)
        shard = Shard.parse(name.removeprefix("shard "), {}) if name.startswith("shard ") else None
        if not alive and shard is not None and has_ended(self.folder, shard):
            return "ended"
        if alive is False:
            return "stopped" if holder.get("released") else "killed"
        if alive is None:  # no clock of another machine is compared with ours
            now, content = time.monotonic(), bytes_of(file)
            before, _, is_confirmed = self._changes.get(file) or (content, now, False)
            if before != content or file not in self._changes:
                self._changes[file] = content, now, is_confirmed or before != content
            _, since, is_confirmed = self._changes[file]
            if now - since > STALE_S:
                return "killed"
            if not is_confirmed:
                return UNCONFIRMED
        return PAUSED if paused else RUNNING

    def _note(self, processes: list[WorkStatus], summary: Mapping[str, Any], counts: list[_JournalCounts]) -> str:
        notes = [f"{n:,} damaged lines"] if (n := sum(each.n_damaged for each in counts)) else []
        if not any(each.state in ALIVE for each in processes):
            reasons = [summary.get("stopped") or "", *(each.note for each in processes)]
            notes += [dict.fromkeys(filter(None, reasons)).__iter__().__next__()] if any(reasons) else []
        return "; ".join(notes)


def _state(processes: list[WorkStatus], summary: Mapping[str, Any], finished: bool, all_done: bool) -> str:
    """Return the state of a run."""
    states = {each.state for each in processes}
    for state in (RUNNING, PAUSED, UNCONFIRMED):
        if state in states:
            return state
    is_open = summary.get("stopped") or set(summary.get("errors") or ()) - SETTLED
    if finished:
        return "stopped" if is_open else FINISHED
    return COMPLETE if all_done else "killed" if "killed" in states else "stopped"


def _n_examples(settings: Mapping[str, Any]) -> int | None:
    """Return how many prompts or queries a run has."""
    n = settings.get("n_examples")
    if n is not None and "rerank" in settings:
        n *= min(settings["depth"], settings["top_k"])
    return None if n is None else n * settings.get("repeats", 1)
