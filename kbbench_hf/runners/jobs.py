"""Jobs of a generation run (prompt, repeat, parameters, and a digest of the request as key), and batches of them.

Batches are for local models: they are fixed, and divided over the processes of a group or the shards of a run. Keys and
`FIELDS` are stored in journals: with another key a prompt of a started run is sent again.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import UsageError
from kbbench_hf.files.journal import Journal, Record
from kbbench_hf.files.shards import Shard
from kbbench_hf.llm.failures import SETTLED, Failure
from kbbench_hf.protocols import Completion, Generator, name_of
from kbbench_hf.runners.progress import Advance, Meter

ATTEMPTS = 8
"""Attempts of one request before its example counts as failed: about a minute with backoff."""
NO_BUDGET = "--max-requests and --max-cost are for served models; a local model costs nothing by request."
_to_json = json.JSONEncoder(sort_keys=True).encode


@dataclass(frozen=True)
class Sampling:
    """How a model samples. `max_tokens` None takes what each prompt asks for; `extra` goes into the request as it is.

    Repeat r of an example uses `seed` + r where a seed is given. In `extra`, None takes a parameter out.

    >>> Sampling(seed=7).parameters(Prompt([{"role": "user", "content": "?"}], max_tokens=20), repeat=1)
    {'temperature': 0.0, 'max_tokens': 20, 'seed': 8}
    """

    temperature: float = 0.0
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def parameters(self, prompt: Prompt, repeat: int = 0) -> dict[str, Any]:
        """Return the parameters of one request by OpenAI's names, without those that are not set (None)."""
        chosen = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens or prompt.max_tokens,
            "seed": None if self.seed is None else self.seed + repeat,
            "stop": list(prompt.stop) or None,
            **self.extra,
        }
        return {name: value for name, value in chosen.items() if value is not None}


class Job(NamedTuple):
    """One completion to make."""

    key: str
    id: Any
    repeat: int
    prompt: Prompt
    parameters: dict[str, Any]
    schema: Mapping[str, Any] | None
    request: str = ""
    """The digest of the request; it is also the key, except for turns."""

    @property
    def max_tokens(self) -> int:
        """Maximum tokens of the response."""
        longest: int = self.parameters.get("max_tokens", self.prompt.max_tokens)
        return longest

    def record(self, **fields: Any) -> Record:
        """Return the journal's record of this job; unnamed fields are None."""
        sent = {"request_sha256": self.request} if isinstance(self.prompt, Turn) else {}
        return {**dict.fromkeys(FIELDS), "key": self.key, "id": self.id, "repeat": self.repeat, **sent, **fields}

    def answered(self, completion: Completion, attempts: int) -> Record:
        """Return the journal's record of a response, with its violation of the schema if the job has one."""
        fields = {**_completion_fields(completion), "attempts": attempts, "at": round(time.time(), 3)}
        text = fields["response"]
        if completion.error in SETTLED:
            fields["settled"] = True
        if self.schema is not None and completion.error is None:
            from kbbench_hf.llm.constrained_decoding import violation

            fields["schema_violation"] = violation(text, self.schema)
        return self.record(**fields)

    def failed(self, failure: Failure, attempts: int) -> Record:
        """Return the journal's record of a prompt that failed for good, with the text of an unusable reply."""
        came = _completion_fields(failure.reply) if failure.reply else {}
        how = {"error": failure.reason, "settled": failure.settled, "detail": failure.detail or None}
        kept = {"response": failure.text or None, "attempts": attempts, "at": round(time.time(), 3)}
        return self.record(**came | how | kept)


def _completion_fields(completion: Completion) -> dict[str, Any]:
    """Return the fields of a completion for a journal's record; `tool_calls` only if there are any."""
    fields = completion._asdict()
    fields["response"] = fields.pop("text")
    del fields["total_tokens"]
    if completion.tool_calls is None:
        del fields["tool_calls"]
    fields["produced_tokens"] = completion.produced_tokens
    return fields


FIELDS = tuple(
    "key id repeat error settled detail response finish_reason prompt_tokens completion_tokens latency_s attempts "
    "schema_violation at reasoning model system_fingerprint provider reasoning_tokens cached_tokens "
    "produced_tokens".split()
)
"""The fields of a record, in the order that `journal.decode` relies on; older journals have fewer.

`error` is None or the class of what went wrong, and `settled` then true where the model was reached and gave no answer
(a refusal): it was paid for and is not asked again. `response` is the raw text, `at` a Unix time. Records of turns have
`request_sha256` besides, and those of replies that call tools `tool_calls`, as they came.
"""


@dataclass(frozen=True)
class Turn(Prompt):
    """One request of a conversation: its response decides the next request, if any.

    The response is stored under `key`, which names the conversation and the step. The request follows from all earlier
    responses, so that a digest of it, stored with the response, shows whether a resumed conversation is the same.
    """

    key: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the request: the tools."""
    then: Callable[[Record], "Turn | None"] | None = None
    """Takes the record of the response, or of a failed request, and returns the next turn; None at the end."""


MOST_KEPT = 50_000_000
"""Maximum characters of all prompts that are cached; contexts can be large."""


class Prompts(Mapping[Any, Prompt]):
    """Prompts by name, in the given order, rendered when they are first needed and cached up to `MOST_KEPT`.

    A `Turn` is rendered anew each time, because its conversation has a state.
    """

    def __init__(self, writers: Mapping[Any, Callable[[], Prompt]]) -> None:
        self._writers, self._room = writers, MOST_KEPT
        self._kept: dict[Any, Prompt] = {}

    def __getitem__(self, name: Any) -> Prompt:
        if name in self._kept:
            return self._kept[name]
        prompt = self._writers[name]()
        size = sum(len(str(message["content"])) for message in prompt.messages)
        if size <= self._room and not isinstance(prompt, Turn):
            self._kept[name] = prompt
            self._room -= size
        return prompt

    def __iter__(self) -> Iterator[Any]:
        return iter(self._writers)

    def __len__(self) -> int:
        return len(self._writers)


@dataclass(frozen=True)
class Work:
    """All jobs of a run: every prompt of the first repeat, then every prompt of the second, each rendered when needed.

    A job's key is a digest of model and revision (or server), messages, parameters, schema, example and repeat: the
    same request has the same key in every process, on every machine, at any number of processes.
    """

    prompts: Mapping[Any, Prompt]
    sampling: Sampling
    repeats: int = 1
    structured: bool = False

    def __len__(self) -> int:
        """Return the number of jobs; the later turns of conversations are not counted."""
        return len(self.prompts) * self.repeats

    def jobs(self, model: str, shard: Shard | None = None) -> Iterator[Job]:
        """Yield the jobs for a model, named with its revision or server; only those of the examples of a shard."""
        for repeat in range(self.repeats):
            for example in self.prompts:
                if shard is None or shard.owns(example):
                    yield self.job(model, example, repeat, self.prompts[example])

    def job(self, model: str, example: Any, repeat: int, prompt: Prompt) -> Job:
        """Return one job."""
        parameters = self.sampling.parameters(prompt, repeat)
        schema = prompt.json_schema if self.structured else None
        if not isinstance(prompt, Turn):
            key = _digest([model, prompt.messages, parameters, schema, example, repeat])
            return Job(key, example, repeat, prompt, parameters, schema, key)
        parameters |= prompt.parameters
        # without the schema, which a server may turn out not to take
        request = _digest([model, prompt.messages, parameters, example, repeat])
        return Job(prompt.key, example, repeat, prompt, parameters, schema, request)

    def walk(self, model: str, first: Job, journal: Journal) -> Iterator[Job]:
        """Yield a job and, as far as the journal holds the answers, those that follow in its conversation."""
        job: Job | None = first
        while job is not None:
            record = next(journal.read([job.key])) if job.key in journal and isinstance(job.prompt, Turn) else None
            yield job
            job = None if record is None else self.after(model, job, record)

    def after(self, model: str, job: Job, record: Record) -> Job | None:
        """Return the next job of a conversation after this record of a job; None at its end, and for other prompts.

        Raises:
            UsageError: the record answers another request.
        """
        if not isinstance(job.prompt, Turn) or job.prompt.then is None:
            return None
        if record.get("request_sha256") != job.request:
            raise UsageError(
                f"The stored response {job.key!r} belongs to another request: the knowledge base, the tools or the "
                "prompt have changed since. Start a new run with --out FOLDER."
            )
        following = job.prompt.then(record)
        return None if following is None else self.job(model, job.id, job.repeat, following)


def _digest(request: list[Any]) -> str:
    return hashlib.sha256(_to_json(request).encode("ascii")).hexdigest()


def takes(function: Callable[..., Any], *names: str) -> bool:
    """Say whether a function takes these keyword arguments.

    >>> takes(lambda prompts, max_tokens: None, "seed"), takes(lambda prompts, **more: None, "seed")
    (False, True)
    """
    parameters = signature(function).parameters
    return set(names) <= parameters.keys() or any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values())


def as_completion(answer: "str | Completion", seconds: float) -> Completion:
    """Return a model's answer as a completion; a bare text is a complete one without token counts."""
    return answer if isinstance(answer, Completion) else Completion(str(answer), "stop", None, None, seconds)


BATCH = 16
"""Prompts of a batch for models without a `batch_size`."""


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
    """Answer the prompts without a record; return the keys of all jobs, in order, under the model's `name`.

    With a `shard`, only its batches are answered, and only their keys returned.

    The prompts of a batch depend on the run alone, longest first, never on what is already done or on the number of
    processes: padding changes the last bits of the logits, so that another batch may give another answer. A batch that
    was recorded in part is answered again as a whole, and the missing records are added. The conversations of a batch
    stay together until they end.
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
        named = [divmod(place, len(examples)) for place in batch]
        jobs = [work.job(name, examples[n], repeat, work.prompts[examples[n]]) for repeat, n in named]
        is_stored = True
        while jobs:
            if any(job.key not in journal for job in jobs):
                advance(0)
                is_stored, journal.heartbeat.under_way = False, len(jobs)
                _answer_batch(model, jobs, journal, record)
            held = zip(jobs, journal.read([job.key for job in jobs]), strict=True)
            jobs = [after for job, done in held if done is not None and (after := work.after(name, job, done))]
            keys += [job.key for job in jobs]
        journal.heartbeat.under_way = 0
        journal.heartbeat.n_stored += len(batch) * is_stored
        advance(len(batch), note=meter.line())
    return keys


def _answer_batch(model: Generator, jobs: list[Job], journal: Journal, record: Callable[[Record], None]) -> None:
    """Let a model answer one batch, and record the jobs without a record; each has the seconds of the whole batch.

    Raises:
        UsageError: the model takes no schemas, or returns another number of answers.
    """
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
