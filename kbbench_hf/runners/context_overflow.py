"""Warnings about prompts that are longer than the context window: refused by the server, or cut without a word."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files.journal import Record

OVERFLOWS = ("context_length", "prompt_too_long")
"""Errors of records: what a server says, and what a local model finds before it begins."""
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
"""So many prompts of different length with the same, largest count of tokens were cut there."""


class Sizes(NamedTuple):
    """Counts of tokens that an error names; None where it names none."""

    needed: int | None
    limit: int | None


def read_sizes(text: str) -> Sizes:
    """Return how many tokens a refused request would have needed, and how many the context has.

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
    """Finds prompts that did not fit the context, and those that the server cut, in records shown one by one.

    `n_characters` maps the keys of records to the lengths of their prompts; a completion has up to `most` tokens.
    """

    def __init__(self, n_characters: dict[str, int], most: int = 0) -> None:
        self.n_characters, self.most = n_characters, most
        self._too_long: list[Any] = []
        self._limits: set[int] = set()
        self._counted: list[tuple[int, int]] = []
        self._n = self._needed = 0

    def watch(self, records: Iterable[Record | None]) -> Iterator[Record | None]:
        """Yield the records as they are, and count each: the journal is read once."""
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

    def warnings(self, servers: Sequence[Mapping[str, Any]]) -> list[ScoreWarning]:
        """Return a warning for prompts that did not fit the context, and one for those that the server cut."""
        kind = str(servers[-1].get("kind", "")) if servers else ""
        n, too_long, found = self._n, self._too_long, []
        if too_long:
            of = f" of {max(self._limits):,} tokens" if self._limits else ""
            message = (
                f"{len(too_long):,} of {n:,} prompts do not fit the model's context{of} and have no answer, "
                f"the first of them {too_long[0]!r}."
            )
            found.append(ScoreWarning("context_overflow", message, _remedy(kind, self._needed), len(too_long)))
        if cut := cut_prompts(self._counted):
            message = (
                f"The server cut {len(cut):,} of {n:,} prompts without a word: it counted at most "
                f"{max(tokens for _, tokens in cut):,} tokens of prompts with up to {max(cut)[0]:,} characters."
            )
            rest = sorted(set(self._counted) - set(cut))
            ratio = median(a / b for a, b in rest) if rest else 4.0
            remedy = _remedy(kind, self.most + int(max(cut)[0] / ratio))
            found.append(ScoreWarning("prompts_cut", message, remedy, len(cut)))
        return found


def cut_prompts(counted: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return those pairs of characters and tokens whose prompts were not read whole.

    A server that cuts prompts at its context counts the same largest number of tokens for prompts of different length.
    Where it drops whole messages, it counts less than half of the tokens that shorter prompts lead to expect.

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
    if ratio is None:
        return [each for each in counted if each[1] == most] if plateau and most >= 1024 and most % 256 == 0 else []
    plateau = plateau and max(at_most) > 1.1 * ratio * most
    return [
        (characters, tokens)
        for characters, tokens in counted
        if characters > _LEAST_CHARACTERS
        and ((plateau and tokens == most) or characters > max(2 * ratio, 8.0) * tokens)
    ]


def _remedy(kind: str, needed: int) -> str:
    """Return the setting that makes room; what has no room now is not asked again in the same folder."""
    n = f"{needed:,} or more".replace(",", "") if needed else "more tokens"
    setting = SETTINGS.get(kind, "Take a model with a longer context").format(n=n)
    return f"{setting}, or make prompts or answers shorter (--max-tokens), and run it in a new folder (--out)."
