"""Making a language model answer prompts: every completion journalled before it counts, any run resumable.

Benchmarks, judges and the reranker all hand over a mapping of ids to prompts; whatever has `complete` or `generate`
answers (see `protocols`).
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.journal import Journal, Record
from kbbench_hf.protocols import Chat, Generator, LanguageModel, name_of
from kbbench_hf.runners.cost import Budget, Price
from kbbench_hf.runners.jobs import ATTEMPTS, NO_BUDGET, InterruptedRunError, Job, Sampling, Work
from kbbench_hf.runners.outcome import Parse, Summary, finish, prediction
from kbbench_hf.runners.progress import Advance, Meter, progress, showing

if TYPE_CHECKING:
    from kbbench_hf.runners.ask_chat import Asker


@dataclass(frozen=True)
class Generation:
    """A finished run: its summary, and its records in the order of the prompts."""

    summary: Summary
    journal: Journal = field(repr=False)
    keys: list[str] = field(repr=False)

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
    show: bool = True,
    title: str = "Generate",
) -> Generation:
    """Answer every prompt and return the finished run; what `folder` already holds is not asked again.

    `prompts` maps ids to prompts, in the order of the predictions; it may render them on demand. With `parse`,
    `folder/predictions.jsonl` is written at the end (`predictions.<r>.jsonl` for repeat r), whole or not at all: the
    parsed answer under the name `answer` beside the raw `response`; a prompt that was not answered has `error` there.
    An interrupted and resumed run writes the same bytes as an uninterrupted one.

    `structured` sends each prompt's JSON schema and counts the answers that do not follow it. `concurrency`,
    `attempts`, the budget and the canary are for models with `complete`. A model in a group of processes (`rank`,
    `n_processes`) shares the work among them; each process returns the whole run.

    Raises:
        BusyError: another process runs in this folder.
        UsageError: the server refuses the key, the model or the request.
        InterruptedRunError, BudgetSpentError: the run stopped early; the same call goes on from there.
    """
    work = Work(prompts, sampling or Sampling(), repeats, structured)
    meter = Meter(price)
    chat = hasattr(model, "complete")
    if not chat and (max_requests is not None or max_cost is not None):
        raise UsageError(NO_BUDGET)
    shard, n_processes = getattr(model, "rank", 0), getattr(model, "n_processes", 1)
    with _interruptible(), Journal(folder, shard, observe=meter.add) as journal:
        budget = Budget(max_requests, max_cost, price)
        budget.requests, budget.spent = meter.n_requests, meter.cost or 0.0
        meter.start()

        def record(outcome: Record) -> None:
            journal.append(outcome)
            meter.add(outcome)
            if parse is not None and outcome["error"] is None and outcome["id"] is not None:
                meter.n_parse_failures += not prediction(outcome, parse, answer).parsed

        with progress(title, len(work), show=show and shard == 0) as advance:
            if chat:
                from kbbench_hf.runners.ask_chat import Asker, run

                asker = Asker(cast(Chat, model), record, budget, concurrency=concurrency, attempts=attempts)
                keys = run(_by_chat(asker, work, journal, meter, advance, canary))
            else:
                from kbbench_hf.runners.ask_batches import answer_in_batches

                keys = answer_in_batches(cast(Generator, model), work, journal, record, meter, advance)
        if n_processes > 1:
            _wait_for_everyone(model)
            meter = Meter(price)
            journal.reload(meter.add)
        written = folder if parse is not None and shard == 0 else None
        records = journal.read(keys)
        summary = finish(records, meter, name_of(model), len(prompts), parse=parse, answer=answer, folder=written)
        _wait_for_everyone(model)  # so that every process finds the predictions when this returns
    return Generation(summary, journal, keys)


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError from None


def _wait_for_everyone(model: LanguageModel) -> None:
    getattr(model, "wait_for_everyone", lambda: None)()


async def _by_chat(
    asker: "Asker", work: Work, journal: Journal, meter: Meter, advance: Advance, canary: bool
) -> list[str]:
    """Ask for what the journal does not hold; return the keys of all jobs, in order."""
    keys: list[str] = []

    def missing() -> Iterator[Job]:
        for job in work.jobs(name_of(asker.model)):
            keys.append(job.key)
            if job.key in journal:
                meter.n_done += 1
            else:
                yield job

    async with AsyncExitStack() as stack:
        if hasattr(asker.model, "__aenter__"):
            await stack.enter_async_context(cast(AbstractAsyncContextManager[Any], asker.model))
        await stack.enter_async_context(showing(meter, advance, asker.status))
        await asker.recognise()
        jobs = missing()
        first = next(jobs, None)
        if first is not None:
            if canary:
                await asker.canary()
            await asker.ask_all(chain([first], jobs))
            if canary:
                with suppress(KBBenchError):  # all is answered: a spent budget or a closed server ends nothing now
                    await asker.canary()
    return keys
