"""Generation runs: prompts in, completions out, each stored in a journal first, so that any run can be resumed.

Runs, agents, judges, the re-ranker and `synthesize` pass a mapping of ids to prompts; the model has `complete` or
`generate` (see `protocols`). The keys of stored responses are digests of the requests (`jobs.Work`). What changes a key
sends every prompt of a started run again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import InterruptedRunError, KBBenchError, UsageError
from kbbench_hf.files.datasets import Row
from kbbench_hf.files.heartbeat import CONCURRENCY, PAUSE, Heartbeat, RunControl
from kbbench_hf.files.journal import Journal, Record
from kbbench_hf.files.shards import COLLECT, IncompleteError, Shard, check_group, read_again
from kbbench_hf.llm.concurrency import TimeoutLimit
from kbbench_hf.llm.concurrency import run as run_to_end
from kbbench_hf.protocols import Chat, Generator, LanguageModel, name_of
from kbbench_hf.runners.chat_requests import RequestSender
from kbbench_hf.runners.cost import Budget, Price
from kbbench_hf.runners.jobs import ATTEMPTS, FIELDS, Job, Sampling, Work, answer_in_batches
from kbbench_hf.runners.model_identity import Identity, OtherServerError
from kbbench_hf.runners.process_group import check_same, check_shared, group
from kbbench_hf.runners.progress import Advance, Meter, progress, showing
from kbbench_hf.runners.refusal_scope import Arbiter
from kbbench_hf.runners.run_summary import (
    ContextCheck,
    Finished,
    Parse,
    RunSummary,
    finish,
    parse_once,
    prediction,
    reply_warnings,
)


@dataclass(frozen=True)
class Generation:
    """A finished generation run: its summary, and its records in the order of the prompts.

    `stopped` is the error that stopped it early; `warnings` are about the server, the context and the replies.
    `predictions` are the rows of each repeat, see `run_summary.Prediction`.
    """

    summary: RunSummary
    journal: Journal = field(repr=False)
    keys: list[str] = field(repr=False)
    stopped: KBBenchError | None = None
    warnings: Sequence[ScoreWarning] = ()
    predictions: Sequence[Sequence[Row]] = field(default=(), repr=False)

    def records(self) -> Iterator[Record]:
        """Yield one record per prompt and repeat, all of the first repeat first; `jobs.FIELDS` names its fields.

        Prompts that were not sent, of a run that stopped early, have none.
        """
        return filter(None, self.journal.read(self.keys))

    def responses(self) -> dict[Any, str | None]:
        """Return id -> text of the first repeat; None where the request failed or was refused."""
        return {
            record["id"]: record["response"] if record["error"] is None else None
            for record in self.records()
            if record["repeat"] == 0
        }


@read_again
def generate(
    prompts: Mapping[Any, Prompt],
    model: LanguageModel,
    folder: Path,
    *,
    sampling: Sampling | None = None,
    repeats: int = 1,
    structured: bool = False,
    parse: Parse | None = None,
    answer: str = "answer",
    concurrency: int = 32,
    attempts: int = ATTEMPTS,
    price: Price | None = None,
    max_requests: int | None = None,
    max_cost: float | None = None,
    canary: bool = True,
    allow_other_server: bool = False,
    one_server: bool = False,
    partial: bool = False,
    shard: Shard | None = None,
    show: bool = True,
    title: str = "Generating",
) -> Generation:
    """Send every prompt that `folder` holds no response to, and return the finished run.

    `prompts` maps ids to prompts, in the order of the predictions; it may render them on demand. With `parse`,
    `folder/predictions.jsonl` is written at the end (`predictions.<r>.jsonl` for repeat r), atomically: the parsed
    `answer`, the raw `response`, the `error` of a failed request. A resumed run writes the same bytes as another.

    The journal of a folder records the server and model: another one is refused before the first request
    (`allow_other_server` accepts it); `one_server` also refuses another fingerprint or provider. With `partial`, a run
    that stops early is returned if it has a response; prompts that were not sent have the error "not_asked".
    `structured` sends each prompt's JSON schema and counts the responses that violate it. `concurrency`, `attempts`,
    budgets and the canary are for models with `complete`. The processes of a model's group share the work.
    With a `shard`, its prompts or batches are answered and no predictions written; with `COLLECT`, nothing is sent.

    Raises:
        BusyError: another process runs in this folder.
        UsageError: the server refuses the key, the model or the request, or is another one than before.
        InterruptedRunError, BudgetSpentError: the run stopped early; the same call resumes it.
        IncompleteError: with `COLLECT`, a prompt has no record.
    """
    work, chat = Work(prompts, sampling or Sampling(), repeats, structured), hasattr(model, "complete")
    rank, n_processes = _join_group(model, folder, shard)
    collects, whole = shard == COLLECT, shard is None or shard == COLLECT
    writes = rank == 0 and not collects
    identity = Identity(folder, writes=writes, allow_other=allow_other_server, one=one_server, shared=shard is not None)
    run = _GenerationState(
        work, model, identity, shard, None if parse is None else parse_once(parse), answer, Meter(price)
    )
    abilities = (PAUSE, CONCURRENCY) if chat else (PAUSE,)
    with _interruptible(), Journal(folder, rank if shard is None else shard, run.observe, abilities) as run.journal:
        if not collects:
            run.journal.heartbeat.start()
        budget = Budget(max_requests, max_cost, price, run.used.n_requests, run.used.cost or 0.0, shard)
        sender = (
            RequestSender(cast(Chat, model), run.record, budget, concurrency=concurrency, attempts=attempts)
            if chat
            else None
        )
        run.meter.start()
        n_jobs = len(work) if shard is None or not chat else repeats * sum(map(shard.owns, prompts))
        bar = progress(title, n_jobs, show=show and writes, heartbeat=run.journal.heartbeat, counts=True)
        with bar as advance:
            if collects:
                run.collect()
            elif sender is not None:
                run_to_end(run.ask(sender, advance, canary=canary))
                if run.stopped is not None and not (partial and whole and any(key in run.journal for key in run.keys)):
                    raise run.stopped
            else:
                run.generate(advance)
        if n_processes > 1:  # count what all processes wrote
            wait_for_everyone(model)
            run.meter = Meter(price)
            run.journal.reload(run.meter.add)
            run.find_keys()
        written = folder if parse is not None and rank == 0 and whole else None
        summary, predictions = run.finish(written)
        wait_for_everyone(model)  # so that every process finds the predictions when this returns
    summary, warnings = run.complete(summary, None if sender is None else sender.gate.timeouts)
    return Generation(summary, run.journal, run.keys, run.stopped, warnings, predictions)


def _join_group(model: LanguageModel, folder: Path, shard: Shard | None) -> tuple[int, int]:
    """Return the rank of this process and the number of processes, after a check of their common folder and model.

    Raises:
        UsageError: a process does not see the folder, or has another model; or a group is given a shard.
    """
    rank, n_processes = getattr(model, "rank", 0), getattr(model, "n_processes", 1)
    if n_processes > 1:
        check_group(shard, n_processes)
        check_shared(group(), folder)
        check_same(group(), {"model": name_of(model)})
    return rank, n_processes


@dataclass
class _GenerationState:
    """The state of a run: its jobs, its model, the counts of its records, and the keys of all jobs, in order."""

    work: Work
    model: LanguageModel
    identity: Identity
    shard: Shard | None
    parse: Parse | None
    answer: str
    meter: Meter
    journal: Journal = field(init=False)
    name: str = ""
    """The name of the model in the keys."""
    keys: list[str] = field(default_factory=list)
    stopped: KBBenchError | None = None
    """The error that ended the run early."""

    def __post_init__(self) -> None:
        self.used = Meter(self.meter.price)
        """Counts the records of this shard, for its share of the budget; `meter` counts all."""
        self.context = ContextCheck({})

    def observe(self, outcome: Record) -> None:
        """Count a record, of an earlier start or new."""
        self.meter.add(outcome)
        self.identity.observe(outcome)
        if self.shard is None or (outcome["id"] is not None and self.shard.owns(outcome["id"])):
            self.used.add(outcome)

    def record(self, outcome: Record) -> None:
        """Store a new record, and count it."""
        self.journal.append(outcome)
        self.observe(outcome)
        if self.parse is not None and outcome["error"] is None and outcome["id"] is not None:
            self.meter.n_parse_failures += not prediction(outcome, self.parse, self.answer).parsed

    def generate(self, advance: Advance) -> None:
        """Let a local model answer the prompts without a record."""
        self.name = self.identity.meet(self.model)
        model = cast(Generator, self.model)
        self.keys = answer_in_batches(
            model, self.name, self.work, self.journal, self.record, self.meter, advance, self.shard
        )

    def collect(self) -> None:
        """Find the keys of all jobs, whose records the shards of the run have left.

        Raises:
            IncompleteError: some have no record.
        """
        self.name = self.identity.recall(self.model)
        self.find_keys()
        if n_missing := sum(record is None for record in self.journal.read(self.keys)):
            raise IncompleteError(self.journal.folder, n_missing, len(self.work), "prompts")

    def find_keys(self) -> None:
        """Find the keys of all jobs, as far as the journal has their conversations."""
        self.keys = []
        for first in self.work.jobs(self.name):
            for job in self.work.walk(self.name, first, self.journal):
                self._add_key(job)

    def _add_key(self, job: Job) -> None:
        self.keys.append(job.key)
        if hasattr(self.model, "complete"):  # servers alone cut prompts
            self.context.n_characters[job.key] = sum(len(each["content"] or "") for each in job.prompt.messages)

    async def ask(self, sender: RequestSender, advance: Advance, *, canary: bool) -> None:
        """Send the jobs without a record; `stopped` gets the error that ends the run early."""
        extra = self.work.sampling.extra
        async with AsyncExitStack() as stack:
            if hasattr(sender.model, "__aenter__"):
                await stack.enter_async_context(cast(AbstractAsyncContextManager[Any], sender.model))
            status = stack.enter_context(_steered(sender, self.meter, self.journal.heartbeat))
            await stack.enter_async_context(showing(self.meter, advance, status))
            await sender.recognize()
            self.name = self.identity.meet(sender.model)
            sender.check, sender.arbiter.said_otherwise = self.identity.check, self.identity.said_otherwise
            sender.follow = self._follow
            jobs = self._open_jobs(sender.arbiter)
            if (first := next(jobs, None)) is None:
                return
            try:
                if canary:
                    await sender.canary(extra, first.max_tokens)
                await sender.send_all(chain([first], jobs))
            except (InterruptedRunError, OtherServerError):
                raise
            except KBBenchError as error:
                self.stopped = error
                deque(jobs, maxlen=0)  # so that all keys are known
            if canary and self.stopped is None:
                with suppress(KBBenchError):  # all is answered: a spent budget or a closed server ends nothing now
                    await sender.canary(extra)

    def _open_jobs(self, arbiter: Arbiter) -> Iterator[Job]:
        """Yield the jobs without a record, the next one of each conversation.

        The arbiter is told an answered prompt of an earlier start, which it may send again as a probe.
        """
        for first in self.work.jobs(self.name, self.shard):
            for job in self.work.walk(self.name, first, self.journal):
                self._add_key(job)
                if job.key not in self.journal:
                    yield job
                    break
                for record in self.journal.read([job.key]) if arbiter.good is None else ():
                    if record is not None and record["error"] is None:
                        arbiter.answered(job)
            else:
                self.meter.n_done += 1
                self.journal.heartbeat.n_stored += 1

    def _follow(self, job: Job, record: Record) -> Job | None:
        """Return the next job of a conversation after this record; None at its end."""
        following = self.work.after(self.name, job, record)
        if following is None:
            self.meter.n_done += 1
        else:
            self.keys.append(following.key)
        return following

    def finish(self, folder: Path | None) -> Finished:
        """Summarize the records, and write their predictions into a folder, if given."""
        prompts = self.work.prompts
        longest = next((prompt.max_tokens for prompt in prompts.values()), 0)
        self.context.most = self.work.sampling.max_tokens or longest
        records = self.context.watch(self.journal.read(self.keys))
        if self.stopped is not None:
            records = self._mark_not_sent(records)
        who = self.name if self.shard == COLLECT else name_of(self.model)  # a server may be gone, and say no name
        return finish(records, self.meter, who, len(prompts), parse=self.parse, answer=self.answer, folder=folder)

    def _mark_not_sent(self, records: Iterator[Record | None]) -> Iterator[Record]:
        """Yield the records of a stopped run; prompts that it did not send have the error "not_asked"."""
        ids = list(self.work.prompts)
        for place, record in enumerate(records):
            yield record or {**dict.fromkeys(FIELDS), "id": ids[place % len(ids)], "error": "not_asked"}

    def complete(self, summary: RunSummary, limit: TimeoutLimit | None) -> tuple[RunSummary, list[ScoreWarning]]:
        """Return the summary with servers, timeouts and the reason of an early end, and the warnings on the run."""
        n_timeouts, held = (limit.n_timeouts, limit.held) if limit else (0, None)
        servers, stopped = tuple(self.identity.servers), str(self.stopped) if self.stopped else None
        summary = replace(summary, servers=servers, stopped=stopped, n_timeouts=n_timeouts, concurrency=held)
        warnings = [
            *_stop_warnings(summary),
            *(slow_warnings(summary, limit) if limit else ()),
            *self.context.warnings(self.identity.servers),
            *reply_warnings(summary, structured=self.work.structured),
            *self.identity.warnings(),
        ]
        return summary, warnings


def _stop_warnings(summary: RunSummary) -> Iterator[ScoreWarning]:
    if summary.stopped is not None:
        n = summary.n_open
        message = f"The run stopped before {n:,} of {summary.n_prompts:,} prompts were answered: {summary.stopped}"
        yield ScoreWarning("stopped", message, "Run the same command again to resume.", n)
    if summary.served_model_changed:
        message = "The canary prompt was answered in several ways: perhaps the served model changed during the run."
        yield ScoreWarning("canary_changed", message, "Was it the same model throughout? Else run it again.")


def slow_warnings(summary: RunSummary, limit: "TimeoutLimit") -> list[ScoreWarning]:
    """Return a warning if timeouts lost responses, a note if they slowed the run."""
    if n := summary.errors.get("timeout", 0):
        message = (
            f"{n:,} of {summary.n_prompts:,} prompts were not answered within {limit.timeout_s:g} s; they are scored "
            "as missing."
        )
        remedy = f"Start the same run again with --timeout {2 * limit.timeout_s:g} --concurrency {limit.lowest}."
        return [ScoreWarning("timeouts", message, remedy, n)]
    if limit.held is None or summary.n_prompts < limit.most:
        return []
    lost = f"; {limit.n_timeouts:,} requests timed out and were sent again" if limit.n_timeouts else ""
    message = (
        f"The server is too slow for {limit.most} requests at once within {limit.timeout_s:g} s: in the end it got at "
        f"most {limit.held} at once{lost}. No answer is missing for it."
    )
    remedy = f"A longer --timeout allows for more; --concurrency {limit.held} begins there."
    return [ScoreWarning("slow_server", message, remedy, severity="note")]


@contextmanager
def _interruptible() -> Iterator[None]:
    """Convert Ctrl-C inside the block into the error of an interrupted run."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError from None


def wait_for_everyone(model: LanguageModel) -> None:
    """Wait for all processes of a model's group, if it has one."""
    getattr(model, "wait_for_everyone", lambda: None)()


@contextmanager
def _steered(sender: RequestSender, meter: Meter, heartbeat: Heartbeat) -> Iterator[Callable[[], str]]:
    """Let the heartbeat report on a sender, and the control file of the run pause it and change its concurrency.

    Yields the function that returns what the run waits for.
    """
    loop = asyncio.get_running_loop()

    def report() -> dict[str, object]:
        price = None if meter.price is None else asdict(meter.price)
        counts = {"n_done": meter.n_done, "under_way": sender.n_open, "concurrency": sender.gate.most}
        return {**counts, "note": sender.status(), "paused": sender.gate.is_paused, "price": price}

    def obey(control: RunControl) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: sender.steer(**control._asdict()))

    def status() -> str:
        if not sender.gate.holds_back:
            return sender.status()
        return f"open requests: {sender.n_open}. {heartbeat.pause_note()}"

    meter.pace, heartbeat.more, heartbeat.on_control = sender.pace, report, obey
    sender.steer(**heartbeat.control._asdict())
    try:
        yield status
    finally:
        heartbeat.on_control = None


MOST_UNREAD = 0.1
"""Maximum share of responses without a readable verdict; above it a run has no result."""


class UnreadError(KBBenchError):
    """Too many responses of a judge cannot be parsed; they are stored, and no result is written."""


def check_read(n_unread: int, n_answered: int, what: str) -> None:
    """Check that at most a tenth of the responses cannot be parsed; `what` is the noun for the message.

    Raises:
        UnreadError: there are more.

    >>> check_read(1, 10, "score")
    >>> check_read(2, 10, "score")
    Traceback (most recent call last):
    kbbench_hf.runners.generate.UnreadError: 2 of 10 responses have no readable score ...
    """
    if n_answered and n_unread > MOST_UNREAD * n_answered:
        raise UnreadError(
            f"{n_unread:,} of {n_answered:,} responses have no readable {what} ({n_unread / n_answered:.0%}; the "
            "limit is "
            f"{MOST_UNREAD:.0%}), so there is no result. The responses are kept. If the model was truncated while "
            "reasoning, raise --max-tokens; or use --structured, or another model."
        )


def generate_judgements(
    prompts: Mapping[Any, Prompt], model: LanguageModel, folder: Path, *, structured: bool | None = None, **how: Any
) -> tuple[Generation, bool]:
    """Return the finished run of a judge's prompts, and whether a JSON schema constrained the responses.

    With `structured` None, a served model gets the schema unless it refuses `response_format`.
    """
    if structured is None and hasattr(model, "complete"):
        try:
            return generate(prompts, model, folder, structured=True, **how), True
        except UsageError as error:
            if "'response_format'" not in str(error):
                raise
        except IncompleteError:  # or the shards sent no schema, as their server does not take one
            with suppress(IncompleteError):
                return generate(prompts, model, folder, **how), False
            raise
    return generate(prompts, model, folder, structured=bool(structured), **how), bool(structured)
