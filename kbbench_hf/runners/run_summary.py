"""Summary, predictions file and warnings (replies, context window) of a run, from the records of its journal.

`generate` uses it; harness tasks share `prediction`. The fields of `RunSummary` are stored in `run.json`, and the lines
of predictions files are read by later versions: their keys and order stay. A resumed run writes the same bytes.
"""

import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import KBBenchError
from kbbench_hf.files.datasets import Row
from kbbench_hf.files.journal import Record
from kbbench_hf.files.writing import whole_file
from kbbench_hf.llm.failures import SETTLED
from kbbench_hf.parsing.conversation_turns import find_other_turn
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.runners.progress import Meter, quantile
from kbbench_hf.scoring.score import repeat_files

_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

Parse = Callable[[str, Any], ParsedReply[Any]]
"""(response text, example id) -> what was read; raises where the text holds no answer."""


@dataclass(frozen=True)
class RunSummary:
    """The counts of a run. They are of prompts times repeats; requests, tokens and cost are of all that was sent.

    `cost` is None without a price; `n_without_usage` responses have no token count. Latencies are of the answered
    requests, in seconds; None if there is none. `canaries` are the responses to the canary prompt, in order.
    """

    model: str
    n_prompts: int
    n_answered: int
    n_failed: int
    errors: Mapping[str, int]
    n_cut_off: int
    n_empty: int
    n_parse_failures: int
    n_schema_violations: int
    n_without_usage: int
    n_requests: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    currency: str | None
    prices_as_of: str | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    canaries: tuple[str, ...]
    n_refusals: int = 0
    """Replies that cannot be parsed, in which the model refuses in words."""
    n_most_common: int = 0
    """Prompts with the most common reply, blanks at its ends aside; replies that call tools do not count."""
    servers: tuple[Mapping[str, Any], ...] = ()
    """The servers, in order, as `servers.json` has them."""
    stopped: str | None = None
    """The error that stopped the run early; None for a complete run."""
    n_timeouts: int = 0
    """Requests that timed out since this start of the run; they were sent again."""
    n_other_turns: int = 0
    """Replies with the mark of another turn as text: the model went on after its own."""
    turn_mark: str = ""
    """The first of these marks."""
    n_repetitive: int = 0
    """Truncated replies that end in a text that repeats itself."""
    concurrency: int | None = None
    """Concurrent requests that the timeout allowed in the end; None if as many as the caller allowed."""

    @property
    def parse_failure_rate(self) -> float:
        """The share of responses without an answer that the parser finds; 0 without responses."""
        return self.n_parse_failures / self.n_answered if self.n_answered else 0.0

    @property
    def served_model_changed(self) -> bool:
        """Whether the canary prompt has several different responses: a hint at another model."""
        return len(set(self.canaries)) > 1

    @property
    def n_open(self) -> int:
        """Number of failed prompts that are sent again when the run is resumed; refusals are not."""
        return sum(n for kind, n in self.errors.items() if kind not in SETTLED)

    def __str__(self) -> str:
        """Return the counts of the run, its requests, tokens and cost, in two lines."""
        cost, latency = "cost unknown (no --prices)", ""
        if self.cost is not None:
            cost = f"{self.cost:.4f} {self.currency} (prices of {self.prices_as_of})"
        if self.latency_p50_s is not None:
            latency = f"; latency p50 {self.latency_p50_s:.2f} s, p95 {self.latency_p95_s:.2f} s"
        errors = f" ({', '.join(f'{kind} {count:,}' for kind, count in self.errors.items())})" if self.errors else ""
        noun = "error" if self.n_failed == 1 else "errors"
        of_all = f" of {self.n_answered + self.n_failed:,}" if self.n_failed else ""
        return (
            f"{self.n_answered:,}{of_all} responses: {self.n_failed:,} {noun}{errors}, "
            f"{self.n_parse_failures:,} unparsable, {self.n_cut_off:,} truncated\n"
            f"{self.n_requests:,} requests, {self.prompt_tokens:,} prompt tokens, "
            f"{self.completion_tokens:,} completion tokens, {cost}{latency}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields and the derived values, for `run.json`."""
        derived = ("parse_failure_rate", "served_model_changed")
        return asdict(self) | {name: getattr(self, name) for name in derived}


_COUNTED = "answered cut_off repetitive empty schema_violations without_usage parse_failures refusals".split()
"""Fields of a summary, without `n_`, that are counted reply by reply."""


class Prediction(NamedTuple):
    """One line of a predictions file, whether it has a parsed answer, and the fields that are scored."""

    line: bytes
    parsed: bool
    row: Row
    """Its `id`, and the answer as JSON has it, or the `error`; neither if the reply has no answer."""


class Finished(NamedTuple):
    """The summary of a finished run, and the rows of the predictions of each repeat; no repeats without a parser."""

    summary: RunSummary
    repeats: list[list[Row]]


def parse_once(parse: Parse) -> Parse:
    """Return a parser that caches its results: for a known reply it returns the same, or raises a ParseError again."""
    known: dict[tuple[Any, int], ParsedReply[Any] | tuple[str, str]] = {}

    def parsed(text: str, example_id: Any) -> ParsedReply[Any]:
        key = example_id, hash(text)
        if key not in known:
            try:
                known[key] = parse(text, example_id)
            except Exception as error:  # one strange text must not end the run
                known[key] = str(error), getattr(error, "thought", "")
        found = known[key]
        if isinstance(found, ParsedReply):
            return found
        raise ParseError(*found)

    return parsed


def prediction(record: Record, parse: Parse, answer: str) -> Prediction:
    r"""Return the line of a predictions file for a record.

    `{"id", answer, "read_by", "response"}`, with the rule by which the answer was read; without both where the parser
    finds none; `{"id", "error"}` where the model gave none. `thought` is what the model thought, where it did: what the
    server sent as such, or else what the parser set apart; `system_fingerprint` and `provider` say who answered, where
    the server did. Whatever a parser raises is a parse failure of that text.

    >>> record = {"id": "q1", "error": None, "response": "4 2"}
    >>> prediction(record, lambda text, _: ParsedReply(text.split(), "words"), "answers").line
    b'{"id": "q1", "answers": ["4", "2"], "read_by": "words", "response": "4 2"}\n'
    """
    who = {name: record[name] for name in ("system_fingerprint", "provider") if record.get(name)}
    if record["error"] is not None:
        row: Row = {"id": record["id"], "error": record["error"]}
        return Prediction(_encode_line({**row, **who}), parsed=False, row=row)
    text, row = record["response"], {"id": record["id"]}

    def line(thought: str, **read: Any) -> bytes:
        thought = record.get("reasoning") or thought
        return _encode_line({**row, **read, **({"thought": thought} if thought else {}), "response": text, **who})

    try:
        read = parse(text, record["id"])
        plain = json.loads(_to_json(read.answer))
        line_of = line(read.thought, **{answer: plain, "read_by": read.rule})
        return Prediction(line_of, parsed=True, row={**row, answer: plain})
    except Exception as error:  # one strange text must not end the run
        return Prediction(line(getattr(error, "thought", "")), parsed=False, row=row)


def finish(
    records: Iterable[Record | None],
    meter: Meter,
    model: str,
    n_prompts: int,
    *,
    parse: Parse | None = None,
    answer: str = "",
    folder: Path | None = None,
) -> Finished:
    """Return the summary of a finished run's records and, with a parser, their predictions.

    The records are read once. With a folder, the predictions of each repeat are written into it, atomically.
    `n_prompts` is the number of prompts in one repeat; the records of the first repeat come first.

    Raises:
        KBBenchError: some jobs have no record (a process of the group died); nothing is written.
    """
    counts, errors, replies = Counter[str](), Counter[str](), Counter[int]()
    latencies, marks, repeats = array("d"), list[str](), list[list[Row]]()
    with ExitStack() as stack:
        for position, record in enumerate(records):
            if record is None:
                counts["missing"] += 1
                continue
            if record["error"] is None:
                _count_reply(record, counts, latencies)
                if mark := find_other_turn(record["response"]):
                    marks.append(mark)
                replies[hash(record["response"].strip())] += not record.get("tool_calls")
            else:
                errors[record["error"]] += 1
            if parse is None:
                continue
            if position % n_prompts == 0:
                repeats.append([])
                if folder is not None:
                    file = stack.enter_context(whole_file(repeat_files(folder, len(repeats))[-1]))
            line, parsed, row = prediction(record, parse, answer)
            repeats[-1].append(row)
            if folder is not None:
                file.write(line)
            if record["error"] is None and not parsed:
                from kbbench_hf.parsing.cues import REFUSAL

                counts["parse_failures"] += 1
                counts["refusals"] += REFUSAL.search(record["response"]) is not None
        if counts["missing"]:
            raise KBBenchError(
                f"{counts['missing']:,} of {counts['missing'] + counts['answered'] + errors.total():,} completions are "
                "missing: a process of the group must have died. Start the same run again to make them."
            )
    ordered, counted = sorted(latencies), dict[str, Any]((f"n_{name}", counts[name]) for name in _COUNTED)
    counted |= {name: getattr(meter, name) for name in ("n_requests", "prompt_tokens", "completion_tokens", "cost")}
    summary = RunSummary(
        model=model,
        n_prompts=counts["answered"] + errors.total(),
        n_failed=errors.total(),
        errors=dict(sorted(errors.items())),
        **counted,
        n_most_common=max(replies.values(), default=0),
        n_other_turns=len(marks),
        turn_mark=marks[0] if marks else "",
        currency=meter.price.currency if meter.price else None,
        prices_as_of=meter.price.as_of if meter.price else None,
        latency_p50_s=quantile(ordered, 0.5) if ordered else None,
        latency_p95_s=quantile(ordered, 0.95) if ordered else None,
        canaries=tuple(meter.canaries),
    )
    return Finished(summary, repeats)


MANY = 0.05
"""The share of truncated or refused replies from which a run has a warning."""
ALMOST_ALL = 0.9
"""From this share of equal replies on, replies are taken not to depend on the prompts."""
EQUAL = "equal_replies"
"""The code of the warning that all replies are equal."""
FEWEST_REPLIES = 5
"""With fewer replies, equal ones are no sign of a fault."""


def reply_warnings(summary: RunSummary, *, structured: bool = False) -> Iterator[ScoreWarning]:
    """Yield warnings on the replies of a run: truncated, with invented turns, refused, all equal.

    `structured` says whether JSON by schema was asked for: then no remedy names it. Replies that cannot be parsed are
    counted where predictions are scored.
    """
    n = summary.n_answered
    if summary.n_other_turns > MANY * n:
        message = (
            f"{summary.n_other_turns:,} of {n:,} replies contain marks of other turns, such as {summary.turn_mark!r}: "
            "the server does not stop at the end of the model's turn. Only the model's first turn is parsed."
        )
        stop = json.dumps({"stop": [summary.turn_mark]})
        remedy = f"Start the server with the model's own chat template, or add --extra-body '{stop}'."
        yield ScoreWarning("other_turns", message, remedy, summary.n_other_turns)
    if summary.n_cut_off > MANY * n:
        message = (
            f"{summary.n_cut_off:,} of {n:,} replies were truncated at the token limit; their ends were not scored."
        )
        remedy = "Raise the limit with --max-tokens, in a new folder (--out)."
        endless = 2 * summary.n_repetitive > summary.n_cut_off
        if endless:
            message += f" {summary.n_repetitive:,} of them repeat one text until the limit: the model does not end."
        if summary.n_other_turns >= summary.n_cut_off:
            remedy = "Let the server stop at the end of the model's turn; a higher --max-tokens does not help."
        elif endless:
            remedy = "A higher --max-tokens does not help. Check the model's chat template, or use another model."
            if not structured:
                remedy = f"{remedy[:-1]} or --structured."
        yield ScoreWarning("truncated", message, remedy, summary.n_cut_off)
    refused = summary.n_refusals + sum(summary.errors.get(kind, 0) for kind in ("refusal", "content_filter"))
    if refused > MANY * summary.n_prompts:
        message = f"The model or its content filter refused {refused:,} of {summary.n_prompts:,} prompts."
        remedy = "Read some replies; choose another --prompt or model, or relax the server's content filter."
        yield ScoreWarning("refused", message, remedy, refused)
    if n >= FEWEST_REPLIES and summary.n_most_common >= ALMOST_ALL * n:
        message = (
            f"{summary.n_most_common:,} of {n:,} replies are equal: the model answered without regard to the prompt."
        )
        remedy = "Read some replies, and check the model's chat template."
        if not structured:
            remedy = "Read some replies; check the model's chat template, or use --structured for JSON."
        yield ScoreWarning(EQUAL, message, remedy, summary.n_most_common)


def _count_reply(record: Record, counts: Counter[str], latencies: "array[float]") -> None:
    """Add a response to the counts in `_COUNTED`, and its latency."""
    counts["answered"] += 1
    counts["cut_off"] += record["finish_reason"] == "length"
    counts["repetitive"] += record["finish_reason"] == "length" and _repeats_itself(record["response"])
    counts["empty"] += not record["response"].strip() and not record.get("tool_calls")
    counts["schema_violations"] += record["schema_violation"] is not None
    counts["without_usage"] += record["completion_tokens"] is None
    latencies.append(record["latency_s"])


def _repeats_itself(text: str) -> bool:
    """Return whether a text ends in at least three copies of up to 200 characters, and at least 60 in all."""
    for size in range(1, 201):
        n_copies = max(3, -(-60 // size))
        if len(text) >= n_copies * size and text.endswith(text[-size:] * n_copies):
            return True
    return False


def _encode_line(row: Mapping[str, Any]) -> bytes:
    try:
        return _to_json(row).encode("utf-8") + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair: no UTF-8, but JSON can spell it
        return json.dumps(row, allow_nan=False).encode("ascii") + b"\n"


OVERFLOWS = ("context_length", "prompt_too_long")
"""Errors of records for a prompt that is too long: of a server, and of a local model before it generates."""
SETTINGS = {
    "vllm": "Start vLLM with --max-model-len {n}",
    "sglang": "Start SGLang with --context-length {n}",
    "tgi": "Start TGI with --max-total-tokens {n} and --max-input-tokens below it",
    "llama.cpp": "Start llama.cpp with --ctx-size {n} for each slot (times --parallel)",
    "ollama": "Start Ollama with OLLAMA_CONTEXT_LENGTH={n}",
    "openai-compatible": "Give the server a context of {n} (vLLM: --max-model-len, llama.cpp: --ctx-size, Ollama: "
    "OLLAMA_CONTEXT_LENGTH)",
}
"""Kind of server -> the setting that makes its context longer; others serve models as they are."""
_LIMIT = re.compile(
    r"(?:context (?:length|window|size)|model length|max\w*_(?:\w*len|tokens)\)?|n_ctx|limit|allowed|maximum|"
    r"prompt length)\D{0,40}?(\d{3,9})\b|(\d{3,9})(?: tokens)? (?:maximum|max\b|limit)|(?:<=|less than) ?(\d{3,9})\b"
)
_SUM = re.compile(r"(\d+) \+ (\d+) > (\d+)")
_WITH_ANSWER = re.compile(r"requested|total|completion|max_(?:new_)?tokens|\d \+ \d")
"""Where an error counts the tokens of the answer too."""
_NUMBER = re.compile(r"(?<![\d.])\d{3,9}\b")
_LEAST_CHARACTERS = 2000
"""Shorter prompts fit every context."""
_SAME = 3
"""So many prompts of different length with the same, largest number of tokens were truncated there."""


class Sizes(NamedTuple):
    """Numbers of tokens that an error names; None if it names none."""

    needed: int | None
    limit: int | None


def read_sizes(text: str) -> Sizes:
    """Return how many tokens a refused request needs and the context has, from the text of the error.

    Both are None unless it names a limit and a larger number.

    >>> read_sizes("request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it")
    Sizes(needed=4390, limit=4096)
    >>> read_sizes("prompt is too long: 202128 tokens > 200000 maximum")
    Sizes(needed=202128, limit=200000)
    """
    numbers = [int(each) for each in _NUMBER.findall(text.replace(",", ""))]
    limits = [int(next(filter(None, found))) for found in _LIMIT.findall(text.lower().replace(",", ""))]
    if added := _SUM.search(text):
        return Sizes(int(added[1]) + int(added[2]), int(added[3]))
    for limit in limits:
        above = [n for n in numbers if n > limit]
        if above:
            return Sizes(max(above), limit)
    return Sizes(None, None)


class ContextCheck:
    """Finds prompts that did not fit the context, and those that the server truncated, in a stream of records.

    `n_characters` maps the keys of records to the lengths of their prompts; a completion has up to `most` tokens.
    """

    def __init__(self, n_characters: dict[str, int], most: int = 0) -> None:
        self.n_characters, self.most = n_characters, most
        self._too_long: list[Any] = []
        self._limits: set[int] = set()
        self._counted: list[tuple[int, int]] = []
        self._n = self._needed = 0

    def watch(self, records: Iterable[Record | None]) -> Iterator[Record | None]:
        """Yield the records unchanged, and count each, so that the journal is read once."""
        for record in records:
            if record is not None:
                self._n += 1
                if record["error"] is not None:
                    self._note_error(record)
                elif record["prompt_tokens"] and not record.get("cached_tokens"):
                    self._counted.append((self.n_characters.get(record["key"], 0), record["prompt_tokens"]))
            yield record

    def _note_error(self, record: Record) -> None:
        if record["error"] in OVERFLOWS:
            self._too_long.append(record["id"])
            detail = record.get("detail") or ""
            read = read_sizes(detail)
            self._limits |= {read.limit} if read.limit else set()
            tokens = read.needed or record["prompt_tokens"] or 0
            with_completion = self.most * (tokens > 0 and not _WITH_ANSWER.search(detail))
            self._needed = max(self._needed, tokens + with_completion)

    def warnings(self, servers: Sequence[Mapping[str, Any]]) -> Iterator[ScoreWarning]:
        """Yield a warning for prompts that did not fit the context, and one for those that the server truncated."""
        kind = str(servers[-1].get("kind", "")) if servers else ""
        n, too_long = self._n, self._too_long
        if too_long:
            of = f" of {max(self._limits):,} tokens" if self._limits else ""
            message = (
                f"{len(too_long):,} of {n:,} prompts do not fit the model's context{of} and have no answer, "
                f"the first of them {too_long[0]!r}."
            )
            yield ScoreWarning("context_overflow", message, _context_remedy(kind, self._needed), len(too_long))
        if cut := cut_prompts(self._counted):
            message = (
                f"The server cut {len(cut):,} of {n:,} prompts without a word: it counted at most "
                f"{max(tokens for _, tokens in cut):,} tokens of prompts with up to {max(cut)[0]:,} characters."
            )
            rest = sorted(set(self._counted) - set(cut))
            ratio = median(a / b for a, b in rest) if rest else 4.0
            remedy = _context_remedy(kind, self.most + int(max(cut)[0] / ratio))
            yield ScoreWarning("prompts_cut", message, remedy, len(cut))


def cut_prompts(counted: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs (characters, tokens) of the prompts that the server truncated, in their order.

    A server that truncates prompts at its context counts the same, largest number of tokens for prompts of different
    length. If it drops whole messages, it counts less than half of the tokens that shorter prompts lead to expect.

    >>> cut_prompts([(4000, 1000), (8000, 2000), (6000, 1500), (9000, 2048), (16000, 2048), (12000, 2048)])
    [(9000, 2048), (16000, 2048), (12000, 2048)]
    >>> cut_prompts([(4000, 300), (9000, 300), (16000, 300)])  # a server that always says the same counts nothing
    []
    """
    most = max((tokens for _, tokens in counted), default=0)
    below = [(characters, tokens) for characters, tokens in counted if tokens < most and characters]
    at_most = [characters for characters, tokens in counted if tokens == most]
    shortest = sorted(below)[: max(3, len(below) // 2)]
    ratio = median(characters / tokens for characters, tokens in shortest) if len(below) >= 3 else None
    plateau = len(at_most) >= _SAME and max(at_most) > 1.1 * min(at_most) and max(at_most) > _LEAST_CHARACTERS
    if ratio is None:  # too few prompts to tell the usual ratio: only a size that contexts have counts
        is_context = plateau and most >= 1024 and most % 256 == 0
        return [each for each in counted if each[1] == most] if is_context else []
    plateau = plateau and max(at_most) > 1.1 * ratio * most
    return [
        (characters, tokens)
        for characters, tokens in counted
        if characters > _LEAST_CHARACTERS
        and ((plateau and tokens == most) or characters > max(2 * ratio, 8.0) * tokens)
    ]


def _context_remedy(kind: str, needed: int) -> str:
    """Return the setting of a kind of server that allows `needed` tokens (0: unknown), in a new folder.

    The old folder has these prompts as settled: they are not sent again.
    """
    n = f"{needed:,} or more".replace(",", "") if needed else "more tokens"
    setting = SETTINGS.get(kind, "Take a model with a longer context").format(n=n)
    return f"{setting}, or make prompts or answers shorter (--max-tokens), and run it in a new folder (--out)."
