"""Answering the jobs of a run with a local model: fixed batches, shared among the processes of a group."""

import time
from collections.abc import Callable

from kbbench_hf.models.causal_lm import CausalLM
from kbbench_hf.models.structured import violation
from kbbench_hf.runners.jobs import Job, Work
from kbbench_hf.runners.journal import Journal, Record
from kbbench_hf.runners.meter import Meter
from kbbench_hf.runners.progress import Advance


def answer_in_batches(
    model: CausalLM,
    work: Work,
    journal: Journal,
    record: Callable[[Record], None],
    meter: Meter,
    advance: Advance,
) -> list[str]:
    """Answer what the journal does not hold; return the keys of all jobs, in order.

    Which prompts stand in a batch follows from the run alone, longest first, never from what is already done or from
    the number of processes: padding moves the last bits of the logits, so another batch could be another answer. A
    batch that was recorded in part is made again as a whole, and its missing answers are recorded.
    """
    examples = list(work.prompts)
    keys: list[str] = []
    lengths: list[int] = []
    for job in work.jobs(model.name):
        keys.append(job.key)
        lengths.append(sum(len(message["content"]) for message in job.prompt.messages))
    order = sorted(range(len(keys)), key=lambda place: (-lengths[place], place))
    batches = [order[start : start + model.batch_size] for start in range(0, len(order), model.batch_size)]
    for number in range(model.rank, len(batches), model.n_processes):
        batch = batches[number]
        if any(keys[place] not in journal for place in batch):
            jobs = [_job(work, model.name, examples, place) for place in batch]
            _answer(model, jobs, journal, record)
        advance(len(batch), note=meter.line())
    return keys


def _job(work: Work, model: str, examples: list[object], place: int) -> Job:
    repeat, position = divmod(place, len(examples))
    return work.job(model, examples[position], repeat, work.prompts[examples[position]])


def _answer(model: CausalLM, jobs: list[Job], journal: Journal, record: Callable[[Record], None]) -> None:
    seed = int(jobs[0].key[:8], 16)  # the same batch samples the same answers in every process
    completions = model.complete([job.prompt.messages for job in jobs], [job.parameters for job in jobs], seed)
    for job, completion in zip(jobs, completions, strict=True):
        if job.key in journal:
            continue
        fields = completion._asdict() | {"response": completion.text, "attempts": 1, "at": round(time.time(), 3)}
        del fields["text"]
        if job.schema is not None and completion.error is None:
            fields["schema_violation"] = violation(completion.text, job.schema)
        record(job.record(**fields))
