"""Batched generation with a local model: fixed batches, sharded over the processes of a group."""

import time
from collections.abc import Callable
from typing import Any

from kbbench_hf.errors import UsageError
from kbbench_hf.files.journal import Journal, Record
from kbbench_hf.files.shards import Shard
from kbbench_hf.protocols import Generator, name_of
from kbbench_hf.runners.jobs import Job, Work, as_completion, takes
from kbbench_hf.runners.progress import Advance, Meter

BATCH = 16
"""Prompts at a time, of a model that says nothing of it."""


def answer_in_batches(
    model: Generator,
    name: str,
    work: Work,
    journal: Journal,
    record: Callable[[Record], None],
    meter: Meter,
    advance: Advance,
    shard: Shard | None = None,
) -> list[str]:
    """Answer what the journal does not hold; return the keys of all jobs, in order, under the model's `name`.

    With a `shard`, only its batches are answered, and only their keys returned.

    Which prompts stand in a batch follows from the run alone, longest first, never from what is already done or from
    the number of processes: padding moves the last bits of the logits, so another batch could be another answer. A
    batch that was recorded in part is made again as a whole, and its missing answers are recorded. Conversations that
    begin in one batch go on in it, those that have not ended.
    """
    size = getattr(model, "batch_size", BATCH)
    rank, n_processes = getattr(model, "rank", 0), getattr(model, "n_processes", 1)
    examples = list(work.prompts)
    keys: list[str] = []
    lengths: list[int] = []
    for job in work.jobs(name):
        keys.append(job.key)
        lengths.append(sum(len(message["content"]) for message in job.prompt.messages))
    order = sorted(range(len(keys)), key=lambda place: -lengths[place])
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    own = [number for number in range(rank, len(batches), n_processes) if shard is None or shard.owns(number)]
    if shard is not None:
        keys = [keys[place] for number in own for place in batches[number]]
        advance(len(order) - len(keys))
    journal.heartbeat.begin(sum(len(batches[number]) for number in own), 0)
    for number in own:
        batch = batches[number]
        jobs = [_job(work, name, examples, place) for place in batch]
        is_stored = True
        while jobs:
            if any(job.key not in journal for job in jobs):
                advance(0)
                is_stored, journal.heartbeat.under_way = False, len(jobs)
                _answer(model, jobs, journal, record)
            held = zip(jobs, journal.read([job.key for job in jobs]), strict=True)
            jobs = [after for job, done in held if done is not None and (after := work.after(name, job, done))]
            keys += [job.key for job in jobs]
        journal.heartbeat.under_way = 0
        journal.heartbeat.n_stored += len(batch) * is_stored
        advance(len(batch), note=meter.line())
    return keys


def _job(work: Work, model: str, examples: list[object], place: int) -> Job:
    repeat, position = divmod(place, len(examples))
    return work.job(model, examples[position], repeat, work.prompts[examples[position]])


def _answer(model: Generator, jobs: list[Job], journal: Journal, record: Callable[[Record], None]) -> None:
    started = time.perf_counter()
    more: dict[str, Any] = {}
    if takes(model.generate, "parameters", "seed"):
        # the same batch samples the same answers in every process
        more = {"parameters": [job.parameters for job in jobs], "seed": int(jobs[0].request[:8], 16)}
    if any(job.schema is not None for job in jobs):
        if not takes(model.generate, "schemas"):
            raise UsageError(f"{name_of(model)} cannot be held to a JSON schema. Run it without --structured.")
        more["schemas"] = [job.schema for job in jobs]
    longest = max(job.max_tokens for job in jobs)
    answers = model.generate([job.prompt.messages for job in jobs], longest, **more)
    seconds = time.perf_counter() - started
    if len(answers) != len(jobs):
        raise UsageError(
            f"The model made {len(answers)} answers for {len(jobs)} prompts; expected one for each. Fix its `generate`."
        )
    for job, answer in zip(jobs, answers, strict=True):
        if job.key not in journal:
            record(job.answered(as_completion(answer, seconds), 1))
