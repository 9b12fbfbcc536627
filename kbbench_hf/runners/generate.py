"""Generation runs: prompts in, completions out, each stored in a journal first, so that any run can be resumed.

Benchmarks, judges and the reranker pass a mapping of ids to prompts; the model has `complete` or `generate` (see
`protocols`).
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import InterruptedRunError, KBBenchError, UsageError
from kbbench_hf.files.datasets import Row
from kbbench_hf.files.heartbeat import CONCURRENCY, PAUSE, Heartbeat, RunControl
from kbbench_hf.files.journal import Journal, Record
from kbbench_hf.files.shards import COLLECT, IncompleteError, Shard, check_group, read_again
from kbbench_hf.protocols import Chat, Generator, LanguageModel, name_of
from kbbench_hf.runners.cost import Budget, Price
from kbbench_hf.runners.jobs import ATTEMPTS, FIELDS, NO_BUDGET, Job, Sampling, Work, answer_in_batches
from kbbench_hf.runners.model_identity import Identity, OtherServerError
from kbbench_hf.runners.process_group import check_same, check_shared, group
from kbbench_hf.runners.progress import Advance, Meter, progress, showing
from kbbench_hf.runners.run_summary import (
    ContextCheck,
    Parse,
    RunSummary,
    finish,
    parse_once,
    prediction,
    reply_warnings,
)

if TYPE_CHECKING:
    from kbbench_hf.llm.concurrency import TimeoutLimit
    from kbbench_hf.runners.chat_requests import RequestSender


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
        """Return one record per prompt and repeat, all of the first repeat first; `jobs.FIELDS` names what it holds."""
        return filter(None, self.journal.read(self.keys))

    def responses(self) -> dict[Any, str | None]:
        """Return id -> text of the first repeat, None where the model did not answer."""
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
    work, meter, used = Work(prompts, sampling or Sampling(), repeats, structured), Meter(price), Meter(price)
    chat, parse = hasattr(model, "complete"), None if parse is None else parse_once(parse)
    if not chat and (max_requests is not None or max_cost is not None):
        raise UsageError(NO_BUDGET)
    rank, n_processes = _join_group(model, folder, shard)
    collects, whole = shard == COLLECT, shard is None or shard == COLLECT
    writes = rank == 0 and not collects
    identity = Identity(folder, writes=writes, allow_other=allow_other_server, one=one_server, shared=shard is not None)

    def observe(outcome: Record) -> None:
        meter.add(outcome)
        identity.observe(outcome)
        if shard is None or (outcome["id"] is not None and shard.owns(outcome["id"])):
            used.add(outcome)

    abilities = (PAUSE, CONCURRENCY) if chat else (PAUSE,)
    with _interruptible(), Journal(folder, rank if shard is None else shard, observe, abilities) as journal:
        if not collects:
            journal.heartbeat.start()
        budget = Budget(max_requests, max_cost, price, used.n_requests, used.cost or 0.0, shard)
        meter.start()
        stopped: KBBenchError | None = None
        limit: TimeoutLimit | None = None
        context = ContextCheck({})

        def record(outcome: Record) -> None:
            journal.append(outcome)
            observe(outcome)
            if parse is not None and outcome["error"] is None and outcome["id"] is not None:
                meter.n_parse_failures += not prediction(outcome, parse, answer).parsed

        n_jobs = len(work) if shard is None or not chat else repeats * sum(map(shard.owns, prompts))
        with progress(title, n_jobs, show=show and writes, heartbeat=journal.heartbeat, counts=True) as advance:
            if chat:
                sender = _request_sender(cast(Chat, model), record, budget, concurrency, attempts)
                limit = sender.gate.timeouts
            if collects:
                name = identity.recall(model)
                keys = _collect_keys(work, name, journal, context.n_characters if chat else {})
            elif chat:
                keys, stopped = _run_requests(sender, work, journal, meter, identity, advance, canary, context, shard)
                if stopped is not None and not (partial and whole and any(key in journal for key in keys)):
                    raise stopped
            else:
                name = identity.meet(model)
                keys = answer_in_batches(cast(Generator, model), name, work, journal, record, meter, advance, shard)
        if n_processes > 1:
            wait_for_everyone(model)
            meter, keys = _read_group(work, name, journal, price)
        context.most = work.sampling.max_tokens or next((prompt.max_tokens for prompt in prompts.values()), 0)
        records = _mark_not_sent(context.watch(journal.read(keys)), work, stopped)
        written = folder if parse is not None and rank == 0 and whole else None
        who = name if collects else name_of(model)  # a server that may be gone does not say its name
        summary, predictions = finish(records, meter, who, len(prompts), parse=parse, answer=answer, folder=written)
        wait_for_everyone(model)  # so that every process finds the predictions when this returns
    summary, warnings = _complete(summary, stopped, limit, context, identity, structured=structured)
    return Generation(summary, journal, keys, stopped, warnings, predictions)


def _join_group(model: LanguageModel, folder: Path, shard: Shard | None) -> tuple[int, int]:
    """Return the number of this process and how many run together, which see one folder and have one model."""
    rank, n_processes = getattr(model, "rank", 0), getattr(model, "n_processes", 1)
    if n_processes > 1:
        check_group(shard, n_processes)
        check_shared(group(), folder)
        check_same(group(), {"model": name_of(model)})
    return rank, n_processes


def _read_group(work: Work, name: str, journal: Journal, price: Price | None) -> tuple[Meter, list[str]]:
    """Return the counts of what all processes wrote, and the keys of all jobs."""
    meter = Meter(price)
    journal.reload(meter.add)
    return meter, [job.key for first in work.jobs(name) for job in work.walk(name, first, journal)]


def _complete(
    summary: RunSummary,
    stopped: KBBenchError | None,
    limit: "TimeoutLimit | None",
    context: ContextCheck,
    identity: Identity,
    *,
    structured: bool,
) -> tuple[RunSummary, list[ScoreWarning]]:
    """Return the summary of a run with its servers, timeouts and reason to stop, and the warnings on the run."""
    summary = replace(
        summary,
        servers=tuple(identity.servers),
        stopped=str(stopped) if stopped else None,
        n_timeouts=limit.n_timeouts if limit else 0,
        concurrency=limit.held if limit else None,
    )
    warnings = [
        *_stop_warnings(summary),
        *(slow_warnings(summary, limit) if limit else ()),
        *context.warnings(identity.servers),
        *reply_warnings(summary, structured=structured),
        *identity.warnings(),
    ]
    return summary, warnings


def _mark_not_sent(
    records: Iterator[Record | None], work: Work, stopped: KBBenchError | None
) -> Iterator[Record | None]:
    """Return the records of a run; prompts that a stopped run did not send have the error "not_asked"."""
    if stopped is None:
        return records
    ids = list(work.prompts)
    return (
        {**dict.fromkeys(FIELDS), "id": ids[place % len(ids)], "error": "not_asked"} if record is None else record
        for place, record in enumerate(records)
    )


def _stop_warnings(summary: RunSummary) -> list[ScoreWarning]:
    found = []
    if summary.stopped is not None:
        n = summary.n_open
        message = f"The run stopped before {n:,} of {summary.n_prompts:,} prompts were answered: {summary.stopped}"
        found.append(ScoreWarning("stopped", message, "Run the same command again to resume.", n))
    if summary.served_model_changed:
        message = "The canary prompt was answered in several ways: perhaps the served model changed during the run."
        found.append(ScoreWarning("canary_changed", message, "Was it the same model throughout? Else run it again."))
    return found


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
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError from None


def wait_for_everyone(model: LanguageModel) -> None:
    """Wait for all processes of a model's group, if it has one."""
    getattr(model, "wait_for_everyone", lambda: None)()


def _request_sender(
    model: Chat, record: Callable[[Record], None], budget: Budget, concurrency: int, attempts: int
) -> "RequestSender":
    from kbbench_hf.runners.chat_requests import RequestSender  # imports asyncio, as below

    return RequestSender(model, record, budget, concurrency=concurrency, attempts=attempts)


def _run_requests(*arguments: Any) -> tuple[list[str], KBBenchError | None]:
    """Run `_generate_by_chat` to its end."""
    from kbbench_hf.llm.concurrency import run

    return run(_generate_by_chat(*arguments))


async def _generate_by_chat(
    sender: "RequestSender",
    work: Work,
    journal: Journal,
    meter: Meter,
    identity: Identity,
    advance: Advance,
    canary: bool,
    context: ContextCheck,
    shard: Shard | None = None,
) -> tuple[list[str], KBBenchError | None]:
    """Send the jobs that the journal lacks; return the keys of all jobs, in order, and the error that stopped the run.

    Stores the length of each prompt in `context.n_characters`.
    """
    keys: list[str] = []

    def missing(name: str) -> Iterator[Job]:
        for first in work.jobs(name, shard):
            for job in work.walk(name, first, journal):
                keys.append(job.key)
                context.n_characters[job.key] = _n_characters(job)
                if job.key not in journal:
                    yield job
                    break
                _recall(sender, job, journal)
            else:
                meter.n_done += 1
                journal.heartbeat.n_stored += 1

    def follow(job: Job, record: Record) -> Job | None:
        following = work.after(name, job, record)
        if following is None:
            meter.n_done += 1
        else:
            keys.append(following.key)
        return following

    stopped: KBBenchError | None = None
    async with AsyncExitStack() as stack:
        if hasattr(sender.model, "__aenter__"):
            await stack.enter_async_context(cast(AbstractAsyncContextManager[Any], sender.model))
        meter.pace = sender.pace
        journal.heartbeat.more = functools.partial(_report, sender, meter)
        stack.enter_context(_steered(sender, journal.heartbeat))
        await stack.enter_async_context(showing(meter, advance, functools.partial(_status, sender, journal.heartbeat)))
        await sender.recognize()
        name = identity.meet(sender.model)
        sender.check, sender.arbiter.said_otherwise = identity.check, identity.said_otherwise
        sender.follow = follow
        jobs = missing(name)
        first = next(jobs, None)
        if first is not None:
            try:
                if canary:
                    await sender.canary(work.sampling.extra, first.max_tokens)
                await sender.send_all(chain([first], jobs))
            except (InterruptedRunError, OtherServerError):
                raise
            except KBBenchError as error:
                stopped = error
                deque(jobs, maxlen=0)  # so that all keys are known
            if canary and stopped is None:
                with suppress(KBBenchError):  # all is answered: a spent budget or a closed server ends nothing now
                    await sender.canary(work.sampling.extra)
    return keys, stopped


def _report(sender: "RequestSender", meter: Meter) -> dict[str, object]:
    """Return what the heartbeat tells of requests to a server."""
    price = None if meter.price is None else asdict(meter.price)
    counts = {"n_done": meter.n_done, "under_way": sender.n_open, "concurrency": sender.gate.most}
    return {**counts, "note": sender.status(), "paused": sender.gate.is_paused, "price": price}


@contextmanager
def _steered(sender: "RequestSender", heartbeat: Heartbeat) -> Iterator[None]:
    """Let the control file of the run pause the sender, and change its concurrency, while the block runs."""
    import asyncio

    loop = asyncio.get_running_loop()

    def obey(control: RunControl) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: sender.steer(**control._asdict()))

    heartbeat.on_control = obey
    sender.steer(**heartbeat.control._asdict())
    try:
        yield
    finally:
        heartbeat.on_control = None


def _status(sender: "RequestSender", heartbeat: Heartbeat) -> str:
    """Return what the run waits for."""
    if not sender.gate.holds_back:
        return sender.status()
    return f"open requests: {sender.n_open}. {heartbeat.pause_note()}"


def _collect_keys(work: Work, name: str, journal: Journal, n_characters: dict[str, int]) -> list[str]:
    """Return the keys of all jobs, in order, whose records the shards of a run have left.

    Raises:
        IncompleteError: some have no record.
    """
    n_characters |= {
        job.key: _n_characters(job) for first in work.jobs(name) for job in work.walk(name, first, journal)
    }
    keys = list(n_characters)
    if n_missing := sum(record is None for record in journal.read(keys)):
        raise IncompleteError(journal.folder, n_missing, len(work), "prompts")
    return keys


def _n_characters(job: Job) -> int:
    return sum(len(message["content"] or "") for message in job.prompt.messages)


def _recall(sender: "RequestSender", job: Job, journal: Journal) -> None:
    """Take a prompt that an earlier start answered as the known good prompt of the arbiter."""
    if sender.arbiter.good is None:
        for record in journal.read([job.key]):
            if record is not None and record["error"] is None:
                sender.arbiter.answered(job)


MOST_UNREAD = 0.1
"""Maximum share of responses without a readable judgment; above it a run has no result."""


class UnreadError(KBBenchError):
    """Too many responses of a judge cannot be parsed; they are stored, and no result is written."""


def check_read(n_unread: int, n_answered: int, what: str) -> None:
    """Raise an error if more than a tenth of the responses cannot be parsed.

    Raises:
        UnreadError: so many.

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
