"""Judging extracted triples: verdicts of local and language models, journaled, resumed, and written as annotations.

`annotators` and `calibration` use it. Equal items are judged once. A reply that cannot be parsed, a refusal, a failed
request and a truncated response are no verdicts: they keep their status and raw text, are counted, and leave the mean.
The columns of the annotation and the statuses are stored, and so are the keys of the journal.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa

from kbbench_hf.benchmarks.annotations import Identity, triple_key, write_annotation
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Examples, Prompt
from kbbench_hf.benchmarks.judge_agreement import JudgeAgreement, read_agreement
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.journal import Journal, Record
from kbbench_hf.files.shards import COLLECT, IncompleteError, Shard, end_shard, read_again
from kbbench_hf.judges.llm_judges import (
    FACT_PROMPT_SHA256,
    SPLIT_PROMPT_SHA256,
    Item,
    StoredFacts,
    StoredSplits,
    fact_prompt,
    parse_fact_reply,
    parse_split_reply,
    split_prompt,
)
from kbbench_hf.judges.surface import SURFACE, SurfaceJudge
from kbbench_hf.metrics.generative_re import keep_well_formed
from kbbench_hf.model_specs import parse, positive
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.protocols import Judge, LanguageModel, Tunable, Verdict
from kbbench_hf.runners.generate import check_read, generate, generate_judgements
from kbbench_hf.runners.jobs import Prompts, Sampling
from kbbench_hf.runners.progress import progress

_JUDGE_BATCH = 256
"""Items that a local judge is given at a time: what an interruption can cost."""


@dataclass(frozen=True)
class ChatJudge:
    """A language model that judges, and the options of its requests; `options` go to `generate`."""

    model: LanguageModel
    sampling: Sampling = field(default_factory=Sampling)
    structured: bool | None = None
    """Whether requests have a JSON schema; None if the model takes one."""
    options: Mapping[str, Any] = field(default_factory=dict)


AnyJudge = ChatJudge | Judge


class _Kind(NamedTuple):
    """The prompt and the parser of one kind of verdict."""

    prompt: Callable[[str, str], Prompt]
    """(text, triple) -> the prompt."""
    read: Callable[[str], float]
    """Reply -> the verdict; raises ParseError."""
    prompt_sha256: str
    needs_text: bool
    """Whether the verdict depends on the text; else a triple is judged once for all texts."""
    readable_when_cut_off: bool
    """Whether a truncated reply may have the whole verdict: one word does, a list of sub-triples does not."""


KINDS = {
    "factualness": _Kind(fact_prompt, parse_fact_reply, FACT_PROMPT_SHA256, True, True),
    "granularity": _Kind(split_prompt, parse_split_reply, SPLIT_PROMPT_SHA256, False, False),
}
CUT_OFF = "cut off"
UNREAD = ("parse error", CUT_OFF)
"""Statuses of responses without a verdict."""
MORE_ROOM = 4
"""The second token limit of a response that was truncated, in limits of its prompt."""


def annotate_verdicts(
    examples: Examples,
    answers: Sequence[Answer | None],
    folder: Path,
    kind: str,
    judge: AnyJudge,
    *,
    text: str = "text",
    agreements: Path | None = None,
    shard: Shard | None = None,
    show: bool = True,
) -> Counter[str]:
    """Write a judge's verdicts on every predicted triple; return status -> number of distinct items.

    Equal items are judged once; the verdicts of a `stored:` judge are replayed by position. A failed request is sent
    again when this is started again. The journal is in `folder/work`. `kind` is `factualness` or `granularity`, `text`
    the field of an example that holds the text. The annotation also has the judge's agreement with released verdicts,
    if the judge knows it or a calibration wrote it into the folder `agreements`.

    Raises:
        UnreadError: more than a tenth of a language model's answers hold no verdict; nothing is written.
        ShardEnd: a `shard` has judged its items; nothing is written but its journal.
    """
    triples = [
        (row, triple, (row[text], triple_key(triple)))
        for row, answer in zip(examples.rows, answers, strict=True)
        for triple in answer or []
    ]
    items = [item for _, _, item in triples]
    if isinstance(judge, StoredFacts | StoredSplits):
        verdicts = judge.judge(items)
        identity: Identity = {"judge": judge.name}
    else:
        judge = with_calibrated_threshold(judge, kind, examples, agreements)
        verdicts, identity, _ = judge_each_once(items, folder / "work" / kind, kind, judge, shard=shard, show=show)
        if measured := measured_agreement(judge, identity, kind, examples, agreements):
            identity = {**identity, "agreement": measured.to_dict()}
    rows: dict[tuple[str, str, int], Verdict] = {}
    met: Counter[tuple[str, str]] = Counter()
    for (row, triple, (_, key)), verdict in zip(triples, verdicts, strict=True):
        rows[row["id"], key, met[row["id"], key]] = verdict
        met[row["id"], key] += 1
        for clean in keep_well_formed([triple]):  # as `fixed` mode knows it
            rows.setdefault((row["id"], triple_key(clean), 0), verdict)
    if kind == "granularity":  # a reply belongs to a triple, however often it occurs
        rows = {place: verdict for place, verdict in rows.items() if place[2] == 0}
    text_columns = dict.fromkeys(("id", "triple", "occurrence", "value", "status", "raw"), pa.string())
    schema = pa.schema(text_columns | {"occurrence": pa.int32(), "value": pa.float64()})
    columns = ([*place, *verdict] for place, verdict in rows.items())
    table = pa.Table.from_pylist([dict(zip(schema.names, each, strict=True)) for each in columns], schema)
    write_annotation(folder, kind, identity, table)
    return Counter(verdict.status for verdict in dict(zip(items, verdicts, strict=True)).values())


def measured_agreement(
    judge: AnyJudge, identity: Identity, kind: str, examples: Examples, agreements: Path | None
) -> JudgeAgreement | None:
    """Return a judge's agreement with released verdicts on the examples' config; None if it was not measured."""
    if isinstance(judge, SurfaceJudge):
        return judge.agreement
    if agreements is None:
        return None
    return read_agreement(agreements, calibration_identity(judge, identity), kind, corpus_of(examples))


def calibration_identity(judge: AnyJudge, identity: Identity) -> Identity:
    """Return the identity under which a judge's calibration is stored, without a threshold that calibration finds."""
    return {"judge": judge.untuned} if isinstance(judge, Tunable) and not judge.chosen else identity


def corpus_of(examples: Examples) -> str:
    """Return the config of examples; empty where they do not have it."""
    return str(getattr(examples.context, "config", ""))


def with_calibrated_threshold(judge: AnyJudge, kind: str, examples: Examples, agreements: Path | None) -> AnyJudge:
    """Return a judge with the threshold that its calibration found on this config; unchanged if there is none.

    A threshold that the user chose stays.
    """
    if agreements is None or not isinstance(judge, Tunable) or judge.chosen:
        return judge
    measured = read_agreement(agreements, calibration_identity(judge, {}), kind, corpus_of(examples))
    return judge if measured is None or measured.threshold is None else judge.at(measured.threshold)


class Judged(NamedTuple):
    """The verdict on each item, the identity of the judge, and the cost: items, seconds, and of models the tokens."""

    verdicts: list[Verdict]
    identity: Identity
    cost: Mapping[str, float]


def judge_each_once(
    items: Sequence[Item], work: Path, kind: str, judge: AnyJudge, *, shard: Shard | None = None, show: bool = True
) -> Judged:
    """Return a judge's verdict on every item, in order; equal items, and those in the journal of `work`, only once.

    Raises:
        UnreadError: more than a tenth of a language model's answers hold no verdict.
    """
    how = KINDS[kind]
    # without the text, the same triple of two documents is one item
    names = [item if how.needs_text else ("", item[1]) for item in items]
    distinct = list(dict.fromkeys(names))
    start = perf_counter()
    if isinstance(judge, ChatJudge):
        found, identity, cost = _judge_by_chat(distinct, work, how, judge, shard, show)
    else:
        found, identity, cost = _judge_locally(distinct, work, judge, shard, show), {"judge": judge.name}, {}
    by_name = dict(zip(distinct, found, strict=True))
    seconds = {"n_items": len(distinct), "seconds": round(perf_counter() - start, 3)}
    return Judged([by_name[name] for name in names], identity, {**seconds, **cost})


@read_again
def _judge_locally(items: Sequence[Item], work: Path, judge: Judge, shard: Shard | None, show: bool) -> list[Verdict]:
    """Return the verdicts of a local judge; a shard has every n-th batch of `_JUDGE_BATCH` items.

    Raises:
        ShardEnd: a shard has ended.
        IncompleteError: with `COLLECT`, a verdict is missing.
    """
    keys = [_digest(judge.name, *item) for item in items]
    with Journal(work, shard or 0) as journal:
        if shard == COLLECT:
            if n_missing := sum(record is None for record in journal.read(keys)):
                raise IncompleteError(work, n_missing, len(items), "verdicts")
        else:
            journal.heartbeat.start()
        pairs = enumerate(zip(keys, items, strict=True))
        own = [each for place, each in pairs if shard is None or shard.owns(place // _JUDGE_BATCH)]
        missing = [] if shard == COLLECT else [each for each in own if each[0] not in journal]
        how: dict[str, Any] = {"show": show, "heartbeat": journal.heartbeat, "counts": True}
        with progress("Judging", len(own), done=len(own) - len(missing), **how) as advance:
            for start in range(0, len(missing), _JUDGE_BATCH):
                batch = missing[start : start + _JUDGE_BATCH]
                advance(0)  # waits while the run is paused
                journal.heartbeat.under_way = len(batch)
                for (key, _), verdict in zip(batch, judge.judge([item for _, item in batch]), strict=True):
                    error = None if verdict.value is not None else verdict.status
                    journal.append({"key": key, "error": error, **verdict._asdict()})
                journal.heartbeat.under_way = 0
                advance(len(batch))
        end_shard(shard, work)
        return [Verdict(each["value"], each["status"], each["raw"]) for each in journal.read(keys) if each is not None]


def _judge_by_chat(
    items: Sequence[Item], work: Path, kind: _Kind, judge: ChatJudge, shard: Shard | None, show: bool
) -> Judged:
    """Return the verdicts of a language model; a truncated response is requested once more, with a higher limit."""
    prompts = Prompts({_digest(*item): partial(kind.prompt, *item) for item in items})
    how = {"show": show, "title": "Judging", **judge.options, "shard": shard}
    run, structured = generate_judgements(
        prompts, judge.model, work, sampling=judge.sampling, structured=judge.structured, **how
    )
    verdicts = {record["id"]: _parse_record(record, kind) for record in run.records()}
    runs, higher_limit = [run], None
    cut_off = [name for name, verdict in verdicts.items() if verdict.status == CUT_OFF]
    if judge.sampling.max_tokens is None:
        higher_limit = MORE_ROOM * kind.prompt("", "").max_tokens
        if cut_off:
            again = Prompts({name: partial(prompts.__getitem__, name) for name in cut_off})
            with suppress(UsageError):  # a server that refuses the higher limit: the responses stay truncated
                sampling = replace(judge.sampling, max_tokens=higher_limit)
                runs.append(generate(again, judge.model, work, sampling=sampling, structured=structured, **how))
                verdicts |= {record["id"]: _parse_record(record, kind) for record in runs[-1].records()}
    end_shard(shard, work, run.summary.n_open)
    n_unread = sum(verdict.status in UNREAD for verdict in verdicts.values())
    check_read(n_unread, n_unread + sum(verdict.status == "ok" for verdict in verdicts.values()), "verdict")
    identity = {
        "judge": f"chat:{run.summary.model}",
        "prompt_sha256": kind.prompt_sha256,
        "sampling": judge.sampling.parameters(kind.prompt("", "")),
        "structured": structured,
        **({"max_tokens_where_cut_off": higher_limit} if higher_limit else {}),
    }
    names = ("n_requests", "prompt_tokens", "completion_tokens")
    return Judged([verdicts[name] for name in prompts], identity, {n: getattr(runs[-1].summary, n) for n in names})


def _parse_record(record: Record, kind: _Kind) -> Verdict:
    """Return the verdict of a record, or the status that says why there is none, with the raw reply."""
    if record["error"] == "reasoning_only":
        return Verdict(None, CUT_OFF, record["response"] or "")
    if record["error"] is not None:
        how = "refused" if record["settled"] else "failed"
        return Verdict(None, f"{how}: {record['error']}", record["response"] or "")
    cut_off = record["finish_reason"] == "length"
    if cut_off and not kind.readable_when_cut_off:
        return Verdict(None, CUT_OFF, record["response"])
    try:
        return Verdict(kind.read(record["response"]), "ok", record["response"])
    except ParseError:
        return Verdict(None, CUT_OFF if cut_off else "parse error", record["response"])


def _digest(*parts: str) -> str:
    return sha256(json.dumps(parts).encode("ascii")).hexdigest()


def judge_by_name(name: str, kind: str, corpus: str) -> Judge:
    """Return the local or stored judge of a name: `surface`, `nli:MODEL[@threshold=,batch=]` or `stored:FILE`.

    Args:
        name: the judge's name.
        kind: `factualness` or `granularity`.
        corpus: the config whose triples are judged; the model of surface features is its own.

    Raises:
        UsageError: the name is of another form, or the kind is unknown.
    """
    if kind not in KINDS:
        raise unknown_name("kind of verdict", kind, KINDS)
    form, _, rest = name.partition(":")
    if name == SURFACE:
        return SurfaceJudge(kind, corpus)
    if form == "stored" and rest:
        return StoredFacts(Path(rest)) if kind == "factualness" else StoredSplits(Path(rest))
    if form == "nli" and rest:
        from kbbench_hf.judges.nli import NliFactJudge, NliSplitJudge

        spec = parse(name)
        options = spec.read(threshold=(float, None), batch=(positive, 16))
        return (NliFactJudge if kind == "factualness" else NliSplitJudge)(spec.model, **options)
    raise UsageError(
        f"{name!r} is not a judge; expected surface, nli:MODEL, stored:FILE, hf:MODEL, or --base-url with a served "
        "model."
    )
